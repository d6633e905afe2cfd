//! The agent's tools: their descriptions, and what they answer when they cannot do what was asked.
//! Names of tools and arguments are the same in every language.

messages! {
    // Descriptions of tools and arguments.
    ls_tool(): "List a folder.", "列出一个文件夹的内容。";
    ls_path(): "from the project root; default .", "相对于项目根目录；默认为 .";
    read_tool(): "Read a text file, its lines numbered. Read long files in parts.",
        "读取文本文件，各行带行号。长文件分段读。";
    read_from(): "first line, from 1", "起始行，从 1 数起";
    read_lines(): "how many; default 1000", "读多少行；默认 1000";
    glob_tool(): "Find files by a pattern such as src/**/*.rs; .gitignore is respected.",
        "按模式查找文件，例如 `notes/**/*.md`；遵守 `.gitignore`。";
    glob_path(): "folder to look in", "在哪个文件夹中查找";
    grep_tool(): "Search file contents by a regular expression; .gitignore is respected.",
        "用正则表达式搜索文件内容；遵守 `.gitignore`。";
    grep_path(): "file or folder", "文件或文件夹";
    grep_glob(): "only files like *.py", "只搜索这类文件，例如 `*.md`";
    recall_tool(): "Bring back an earlier result that was folded, shortened or cut, whole, by its id.",
        "按编号取回先前被折叠、缩短或截断的结果的全文。";
    recall_id(): "o17, or u3 for a message of the user", "`o17`；用户的消息写 `u3`";
    recall_from(): "first line, in the numbers of that result; of a Read those of the file",
        "起始行，按该结果的行号；`Read` 的结果按文件的行号";
    recall_lines(): "how many; default all, in pages of 16 KiB", "取多少行；默认全部，每页 16 千字节";
    todo_tool(): "Replace your list of steps. Use it for work of more than three steps and keep it up to date.",
        "更新你的步骤清单（整份替换）。工作超过三步时使用，并随时更新。";
    edit_tool(): "Replace text in a file. old_string must occur exactly once, or set replace_all.",
        "替换文件中的文字。`old_string` 必须恰好出现一次，否则设置 `replace_all`。";
    edit_old(): "exact text, without line numbers", "与原文完全一致，不含行号";
    multi_edit_tool(): "Several replacements in one file, in order; all of them or none.",
        "在一个文件中按顺序做多处替换；要么全部生效，要么都不生效。";
    write_tool(): "Create a file or replace all of it. Read an existing one first.",
        "新建文件，或替换整个文件。已有的文件要先读。";
    bash_tool(files): "Run a shell command in the project root, confined: {files} has no network but its own localhost (a server must be started and called in one command), and nothing it starts outlives it. Every call is a new shell (timeout: seconds, default 120; outside: ask the user to run it unconfined); files in $TMPDIR stay until your work ends or is interrupted. The exit code of a pipe is that of its last command.",
        "在项目根目录中运行一条命令（用 `bash`），受沙箱限制：{files}；除本机 `localhost` 外没有网络（服务器要在同一条命令里启动和访问）；命令结束后，它启动的一切也随之结束。每次调用都是一个新的环境（`timeout`：秒数，默认 120；`outside`：请用户允许在沙箱外运行）；`$TMPDIR` 中的文件保留到你的工作结束或中断为止。管道的退出码是其中最后一条命令的退出码。";
    bash_no_commits(): "git status, diff, log and show work; add, commit, stash and checkout do not",
        "`git status`、`diff`、`log`、`show` 可用，`add`、`commit`、`stash`、`checkout` 不可用";
    bash_copy(): "copy a file to $TMPDIR before you try something with it",
        "想拿某个文件做试验，先把它复制到 `$TMPDIR`";
    bash_git_closed(no_commits, copy): "but not .git ({no_commits}; {copy})", "但不能写 `.git`（{no_commits}；{copy}）";
    bash_git_refused(no_commits, why, copy): "but not .git ({no_commits}, although the user allows commits: {why}; {copy})",
        "但不能写 `.git`（{no_commits}，尽管用户允许提交：{why}；{copy}）";
    bash_git_open(): "and commit (git add, commit, stash, checkout, branch, tag and merge work; hooks do not run, nothing is signed; settings, hooks, submodules and worktrees cannot be changed, and a rebase has to be finished or aborted in the command that begins it)",
        "也可以提交（`git add`、`commit`、`stash`、`checkout`、`branch`、`tag`、`merge` 可用；不运行钩子，不签名；设置、钩子、子模块和工作树不能改；`rebase` 必须在开始它的那条命令里完成或放弃）";
    bash_writes(git): "it may write the project and $TMPDIR, {git}, it", "可以写项目和 `$TMPDIR`，{git}";
    bash_private_copy(copy): "it works on your private copy of the project and may change it and $TMPDIR (git checkout and stash lose work that is not committed: {copy}); the copy is thrown away when your work ends. It",
        "它在项目的一份私有副本上运行，可以改这份副本和 `$TMPDIR`（`git checkout` 和 `stash` 会丢掉未提交的改动：{copy}）；你的工作结束后，副本即被丢弃";
    bash_reads(): "it may write only $TMPDIR, the project is read-only, it", "只能写 `$TMPDIR`，项目是只读的";

    // Notes of results.
    continue_from(line): "continue with from={line}", "要继续，设 `from={line}`";
    lines_are_cut(most): "lines longer than {most} characters are cut", "超过 {most} 个字符的行已截断";
    not_utf8(mark): "it is not UTF-8: what could not be read is shown as {mark}", "文件不是 `UTF-8`：读不出的部分显示为 {mark}";

    // Refusals.
    no_such_tool(name, near, names): "there is no tool `{name}`.{near} There are {names}", "没有工具 `{name}`。{near}可用的有 {names}";
    did_you_mean(name): " Did you mean {name}?", "是不是想用 {name}？";
    at_file(file, why): "`{file}`: {why}", "`{file}`：{why}";
    only_lines(file, total): "`{file}` has only {total} lines", "`{file}` 只有 {total} 行";
    is_image(file, kind): "`{file}` is an image ({kind}); only text can be read", "`{file}` 是图片（{kind}）；只能读文本";
    is_binary(file, size): "`{file}` is binary, {size} bytes; only text can be read", "`{file}` 是二进制文件，{size} 字节；只能读文本";
    look_with_grep(file, size): "`{file}` has {size} bytes; look into it with Grep", "`{file}` 有 {size} 字节；请用 `Grep` 查看";
    has_bytes(file, size): "`{file}` has {size} bytes", "`{file}` 有 {size} 字节，太大";
    has_more_bytes(file, most): "`{file}` has more than {most} bytes", "`{file}` 超过 {most} 字节";
    not_edited(file): "`{file}` is not UTF-8; it is not edited", "`{file}` 不是 `UTF-8`，不能编辑";
    pattern_too_long(most): "the pattern is longer than {most} bytes", "模式超过 {most} 字节";
    list_too_long(most): "a list has at most {most} steps", "清单最多 {most} 步";
    no_edits(): "there are no edits", "没有给出任何替换";
    too_many_edits(most): "one call has at most {most} edits", "一次调用最多 {most} 处替换";
    edit_number(number, why): "edit {number}: {why}; none of the edits was made", "第 {number} 处：{why}；所有替换均未执行";
    edit_changes_nothing(): "the edit changes nothing", "这次替换没有改变任何内容";
    changed_since_read(file): "`{file}` was changed since you read it; read it again", "`{file}` 在你读过之后有改动；请重新读";
    old_is_empty(): "old_string is empty; it must be the text of the file that is to be replaced, exactly as it stands there",
        "`old_string` 是空的；它必须是文件中要替换的文字，与原文完全一致";
    file_would_be_too_large(most): "the file would have more than {most} bytes", "文件会超过 {most} 字节";
    old_not_found(near): "old_string does not occur{near}", "找不到 `old_string`{near}";
    old_not_unique(count, lines): "old_string occurs {count} times, at lines {lines}; add lines around it, or set replace_all",
        "`old_string` 出现了 {count} 次，在第 {lines} 行；请多带几行上下文，或设置 `replace_all`";
    lines_and_more(lines): "{lines} and more", "{lines} 等";
    near_line(line): "; its first line stands at line {line}, perhaps with other blanks: read it again",
        "；它的第一行在第 {line} 行，空白可能不同：请重新读";
    read_file_again(): "; read the file again", "；请重新读这个文件";
    content_too_large(most): "a file has at most {most} bytes", "文件最多 {most} 字节";
    read_before_write(file): "`{file}` exists; read it before you overwrite it", "`{file}` 已存在；覆盖之前先读";
    no_result(id): "there is no result {id}: each result begins with its id in brackets; one of this same answer can be recalled only in your next answer",
        "没有结果 {id}：每个结果开头的方括号里是它的编号；本次回答中的结果，下一次回答才能取回";
    only_first_line(name, first): "{name} has no more than its first line: {first}", "{name} 只有第一行：{first}";
    has_lines(name, first, last): "{name} has the lines {first} to {last}", "{name} 的行号是 {first} 到 {last}";
    bad_command(): "the command is empty, or has a NUL in it", "命令是空的，或含有空字符";
    timed_out(seconds): "it took longer than {seconds} s and was ended with all it had started",
        "运行超过 {seconds} 秒，已连同它启动的一切结束";
    stopped_while_running(): "Baton was stopped while it ran, so it may have run in part; run it again if it is needed",
        "运行期间 Baton 被停止，命令可能只执行了一部分；需要的话再运行一次";
    ended_by_signal(signal): "it was ended by signal {signal}", "被信号 {signal} 结束";
    repositories_moved(moved): "moved aside: {moved}. Git would run what a repository inside the project names, so none may be made there; make them below $TMPDIR",
        "已移走：{moved}。项目内的仓库所指定的程序会被 `git` 执行，所以不能在项目里建仓库；请建在 `$TMPDIR` 下";
    boards_moved(moved): "moved aside: {moved}. Baton would use a blackboard in the project, and agents do not make any; use other names, or a folder below $TMPDIR",
        "已移走：{moved}。Baton 会使用项目中的黑板，而代理不得新建黑板；请换个名称，或用 `$TMPDIR` 下的文件夹";
    commits_do_not_work(why): "commits do not work here, .git is read-only: {why}", "这里不能提交，`.git` 是只读的：{why}";
    nobody_to_ask_to_leave(): "a call that leaves the confinement needs a person's yes, and nobody can be asked here",
        "在沙箱外运行需要用户同意，而这里无人可问";
    nobody_to_ask_to_act(): "a call that acts needs a person's yes, and nobody can be asked here",
        "会产生改动的调用需要用户同意，而这里无人可问";
    person_said_no(): "the person said no", "用户没有同意";

    // Paths.
    path_outside(path): "`{path}` leads out of the project", "`{path}` 指向项目之外";
    path_missing(path): "`{path}` does not exist", "`{path}` 不存在";
    path_has_nul(path): "`{path}` is no path: it has a NUL in it", "`{path}` 不是路径：其中有空字符";
    path_is_folder(path): "`{path}` is a folder", "`{path}` 是文件夹";
    path_not_folder(path): "`{path}` is not a folder", "`{path}` 不是文件夹";
    path_not_file(path): "`{path}` is not a file", "`{path}` 不是文件";
    path_is_neither(path): "`{path}` is neither a file nor a folder", "`{path}` 既不是文件，也不是文件夹";
    path_is_link(path): "`{path}` is a link: write what it leads to", "`{path}` 是链接：请写它指向的文件";
    path_protected(path): "`{path}` is protected: it is not the agent's to write", "`{path}` 受保护，代理不能写";
    path_in_repository(path): "`{path}` is part of a repository, which file tools do not change", "`{path}` 属于仓库，文件工具不改它";
    path_in_board(path): "`{path}` belongs to a blackboard, which agents neither write nor make; use another name",
        "`{path}` 属于黑板，代理既不能写也不能新建；请换个名称";
    path_read_only(path, mode): "`{path}` is read-only (mode {mode}): whoever made it so does not want it changed; leave it, and say in your answer what should be changed in it",
        "`{path}` 是只读的（权限 {mode}）：有人不希望它被改动；不要动它，在你的回答里写明应当怎么改";
}
