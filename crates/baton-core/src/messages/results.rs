//! The form of tool results as a model sees them: header lines, stubs, short forms, notes.
//!
//! Marks that code reads back are code and the same in every language: `[o12]`, `[lines 3-9: same as
//! o1 lines 3-9]`, `[lines 5-9 are left out here; Recall o3 from=5 lines=5]`, `[40 lines]`,
//! `… [+120 chars]`, and the `: ` and `; ` between the parts of a header.

use super::Language;

/// Things that a result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    File,
    Folder,
    Line,
    Match,
}

impl Thing {
    /// The English words for one and for many, and the Chinese with its measure word.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Thing::File => ("file", "files", "个文件"),
            Thing::Folder => ("folder", "folders", "个文件夹"),
            Thing::Line => ("line", "lines", "行"),
            Thing::Match => ("match", "matches", "处匹配"),
        }
    }
}

impl Language {
    /// `1 file`, `3 files`; `3 个文件`.
    pub fn counted(self, count: u64, thing: Thing) -> String {
        let (one, many, chinese) = thing.words();
        let word = match self {
            Language::English if count == 1 => one,
            Language::English => many,
            Language::Chinese => chinese,
        };
        format!("{count} {word}")
    }
}

messages! {
    // Header lines.
    result_ok(): "ok", "完成";
    result_failed(): "error", "错误";
    result_error(code, message): "error {code}: {message}", "错误 {code}: {message}";
    file_is_empty(): "the file is empty", "文件是空的";
    lines_of_total(from, to, total): "lines {from}-{to} of {total}", "第 {from}-{to} 行，共 {total} 行";
    line_range(from, to): "lines {from}-{to}", "第 {from}-{to} 行";
    folders_and_files(folders, files): "{folders}, {files}", "{folders}，{files}";
    link(name): "{name} (link)", "{name}（链接）";
    with_size(name, size): "{name} ({size} bytes)", "{name}（{size} 字节）";
    matches_in_files(matches, files): "{matches} in {files}", "{matches}，在 {files}中";
    narrower_search(): "a narrower pattern, path or glob finds the rest",
        "把 `pattern`、`path` 或 `glob` 收窄，可以找到其余的";
    none_shown(): "none of them shown", "均未显示";
    first_shown(shown): "the first {shown} are shown", "只显示前 {shown} 个";
    and_more_entries(shown, more): "{shown} and {more} more", "{shown}，另有 {more} 项";
    searched_in(place): " in {place}", " 范围 {place}";
    searched_only(files): " only {files}", " 只看 {files}";
    changed_lines(lines): "changed lines: {lines}", "改动的行：{lines}";
    removed_at_beginning(lines): "{lines} removed at the beginning", "开头删去 {lines}";
    removed_after(lines, line): "{lines} removed after {line}", "第 {line} 行之后删去 {lines}";
    line_as_written(line): "[line {line}: as you wrote it]", "[第 {line} 行：与你写的相同]";
    lines_as_written(first, last): "[lines {first}-{last}: as you wrote them]",
        "[第 {first}-{last} 行：与你写的相同]";
    removed_here(lines): "[{lines} removed here]", "[此处删去 {lines}]";
    created(lines, bytes): "created, {lines}, {bytes} bytes", "已新建，{lines}，{bytes} 字节";
    overwritten(lines, bytes): "overwritten, {lines}, {bytes} bytes", "已覆盖，{lines}，{bytes} 字节";
    exit(code): "exit {code}", "退出码 {code}";
    exit_silent(code): "exit {code}, no output", "退出码 {code}，没有输出";
    lines_of_output(lines): "{lines} lines of output", "输出共 {lines} 行";
    /// Follows `lines_of_output`; taken out again where a result is shortened anyway.
    not_all(): ", not all of them shown", "，未全部显示";
    stderr_earlier(): "--- stderr, earlier", "--- `stderr`，较早的部分";
    command_did(told): "it {told}", "该命令{told}";
    command_changed(files): "changed {files}", "修改了 {files}";
    command_created(files): "created {files}", "新建了 {files}";
    command_deleted(files): "deleted {files}", "删除了 {files}";
    command_touched(files): "touched {files} of caches or builds", "还改动了 {files}（缓存或构建产物）";
    modified_externally(file): "Note: {file} was modified externally.", "注意：{file} 已被外部修改。";
    file_is_past(): "the file has changed since, this is the old text", "文件后来有改动，这是旧的内容";
    lines_are_past(): "the file has changed since, these are the old lines", "文件后来有改动，以下是旧的行";
    cut_to_fit(): "cut, because not all of it fits into the window", "已截断：窗口放不下全部内容";
    user_said(): "what the user said", "用户说的话";

    // Short forms and stubs.
    shortened(): "shortened", "已缩短";
    names_in_it(names): "in it: {names}", "其中有: {names}";
    folded(id, title): "[folded {id}: {title}]", "[已折叠 {id}: {title}]";
    past_without_lines(title): "{title}; the file has changed since, so no lines of it are shown",
        "{title}; 文件后来有改动，所以不显示其中的行";
    names_among_others(names): "names in it, among others: {names}", "其中的部分名称：{names}";
    key_note(key, note): "{key}: {note}", "{key}: {note}";
    more_keys(count): "{count} more keys", "另有 {count} 个键";
    more_fields(count): "{count} more fields", "另有 {count} 个字段";
    left_out(): "left out", "已略去";
    more_entries(count): "and {count} more", "还有 {count} 个";
    more_entries_in_files(count, files): "and {count} more in {files} files", "还有 {count} 个，在 {files} 个文件中";
    long_lines_cut(): "long lines cut", "过长的行已截断";
    more_lines(count): "and {count} more lines", "还有 {count} 行";
    more_lines_before(count): "and {count} more lines before", "前面还有 {count} 行";
    more_lines_unchanged(count): "and {count} more lines, unchanged", "还有 {count} 行，未改动";
    cut_in_the_middle(): "cut in the middle", "中间已截去";
    recall_has_it(notes, id): "{notes}; Recall {id} has it whole", "{notes}; 用 Recall {id} 可看到全部";

    // Notes about results above.
    /// The beginning of the words on results that were folded.
    folded_results(): "[Baton: to save room, these results above are now stubs: ",
        "[Baton：为节省空间，上面这些结果已折叠为存根：";
    folded_results_end(ids): "{ids}. Recall shows one of them again.]", "{ids}。用 Recall 可以重新查看其中任何一个。]";
    /// The beginning of the words on results that a compaction shortened.
    not_whole(): "[Baton: the window was nearly full, so some results are no longer whole: ",
        "[Baton：窗口快满了，所以有些结果不再完整：";
    not_whole_end(told): "{told}. Recall shows a result again.]", "{told}。用 Recall 可以重新查看结果。]";
    now_stubs(ids): "{ids} now only stubs", "{ids} 只剩存根";
    without_some_lines(ids): "{ids} without some of their lines", "{ids} 少了部分行";
    own_calls_cut(): "long texts of your own earlier calls without their middle",
        "你先前调用中的长文本已截去中间部分";
    todo_list(done, all): "Todo, {done} of {all} done:", "待办事项，已完成 {done}/{all}：";
}
