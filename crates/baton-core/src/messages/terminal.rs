//! Messages about a run for users of the command line. A number is passed twice: with its noun for
//! the English text (`counted`), alone for the Chinese one.

messages! {
    finished(): "finished", "已完成";
    abandoned(): "abandoned", "已放弃";
    stopped(why): "stopped: {why}", "已停止：{why}";
    resumed(): "resumed", "恢复运行";
    changed_rules(files): "continues with changed rules: {files}", "按改动后的规则继续：{files}";
    /// Between the parts of a line.
    joint(): "; ", "；";
    aside(words): " ({words})", "（{words}）";

    interrupted_stage(stage, how): "{stage} was interrupted; {how}", "{stage} 被中断；{how}";
    project_is_back(): "the project is back to what it was before it", "项目已恢复到它开始之前的样子";
    starts_over(): "it starts over", "将重新开始";
    starts_over_kept(files): "it starts over; changed meanwhile and kept: {files}", "将重新开始；其间的改动已保留：{files}";
    stage_failed(stage, why): "{stage} failed: {why}", "{stage} 失败：{why}";
    trespassed(stage, files): "{stage} changed files that are not its own; restored: {files}", "{stage} 改动了不归它的文件，已还原：{files}";
    changed_by_reader(stage, files): "changed while {stage}, which may not write, ran, and kept: {files}", "{stage} 无权写文件，但在它运行期间有改动，已保留：{files}";
    changed_outside(files): "changed outside the stages: {files}", "各阶段之外有改动：{files}";
    void_pass(agent): "; the pass of {agent} no longer counts", "；{agent} 的通过不再有效";
    void_passes(agents): "; the passes of {agents} no longer count", "；{agents} 的通过不再有效";

    answer_refused(who, problem): "{who}'s answer is refused: {problem}", "{who} 的回答被拒绝：{problem}";
    reads(who, paths): "{who} reads {paths}", "{who} 阅读 {paths}";
    report_refused(problem): "the report is refused: {problem}", "报告被拒绝：{problem}";
    decided(who, next, reason): "{who} → {next}: {reason}", "{who} → {next}：{reason}";
    by_rule(): "by rule", "按规则";
    finish_refused(open): "; refused: {open}", "；被拒绝：{open}";
    review_ignored(review): "; override: {review} is ignored", "；不采纳 {review} 的结论";
    reported(agent, verdict): "{agent}: {verdict}", "{agent}：{verdict}";
    without_verdict(): "reported", "已报告";
    overturned(): " (overturned)", "（被推翻）";
    first_blocker(blocker): ": {blocker}", "：{blocker}";
    and_more(count): " and {count} more", "，另有 {count} 项";

    gate_runs(command): "gate: {command}", "检查命令：{command}";
    gate_passed(command): "gate passed: {command}", "检查命令通过：{command}";
    gate_failed(whose, command, reason): "{whose}: gate `{command}` failed ({reason})", "{whose}：检查命令 `{command}` 未通过（{reason}）";
    pass_overturned(agent, verdict): "{agent}: {verdict} overturned", "{agent}：{verdict} 被推翻";
    does_not_count(what): "{what} does not count", "{what} 不成立";
    whole_output(path): "whole output: {path}", "完整输出：{path}";
    evaluation_begins(number): "evaluation {number} begins", "第 {number} 次评测开始";
    evaluation_ended(line): "evaluation: {line}", "评测：{line}";
    samples_cannot_run(why): "the samples cannot be run: {why}", "无法运行样本：{why}";
    subloop_begins(): "sub-loop begins", "修复循环开始";
    subloop_ends(count, how): "sub-loop ends after {count}: {how}", "修复循环在 {count} 次后结束：{how}";
    repaired(): "repaired", "已修复";
    not_repaired(): "not repaired", "未修复";

    asks_you(who, title): "{who} asks you: {title}", "{who} 向你提问：{title}";
    answered(option): "answered: {option}", "已回答：{option}";
    adopted(files): "changed by a person and adopted: {files}", "用户的改动已采用：{files}";
    recommended(): " (recommended)", "（推荐）";
    option(number, id, description): "  {number}. {id}: {description}", "  {number}. {id}：{description}";
    answers(last, names): "1-{last} or {names}", "1-{last}，或 {names}";
    waiting_for_answer(number): "Waiting for your answer (question {number})", "等待你的回答（问题 {number}）";
    how_to_answer(numbers, names): "`baton answer {numbers}` or `baton answer {names}` continues", "用 `baton answer {numbers}` 或 `baton answer {names}` 回答并继续";
    answer_prompt(last): "Answer (1-{last} or name, optional comment; Enter to decide later): ", "请回答（1-{last} 或名称，后面可加说明；直接回车则稍后再定）：";
    not_an_option(word, known): "`{word}` is not an option; answer {known}", "`{word}` 不是可选项；请回答 {known}";
    edits_question(what): "\n{what}\n  keep: the project stays as it is, with what the stage had done so far\n  discard: it goes back; what is there now is kept as a snapshot\nkeep or discard; empty to leave it for now: ", "\n{what}\n  `keep`：项目保持现状，包括该阶段已做的部分\n  `discard`：项目恢复原状；现在的内容另存为快照\n请输入 `keep` 或 `discard`；直接回车则稍后再定：";

    running(process): "running ({process})", "正在运行（{process}）";
    process(pid): "pid {pid}", "进程 {pid}";
    since(time): ", since {time}", "，始于 {time}";
    waiting_elsewhere(pid): "waiting for your answer at the terminal of process {pid}", "在进程 {pid} 的终端等待你的回答";
    waiting(): "waiting for your answer; `baton answer` continues", "等待你的回答；用 `baton answer` 继续";
    paused(place): "paused {place}; `baton resume` continues", "已在{place}暂停；用 `baton resume` 继续";
    interrupted(place, pid): "interrupted {place} (process {pid} is gone); `baton resume` continues", "在{place}中断（进程 {pid} 已不在）；用 `baton resume` 继续";
    abandoned_run(): "abandoned; `baton run` starts a new run", "已放弃；用 `baton run` 开始新的运行";
    unknown(): "unknown", "未知";
    in_stage(stage): "in {stage}", " {stage} 运行期间";
    before_stage(stage): "before {stage}", " {stage} 之前";
    before_decision(main): "before {main}'s next decision", " {main} 下一次决策之前";
    before_gate(): "before a gate", "检查命令之前";
    in_gate(): "in a gate", "检查命令运行期间";
    before_evaluation(): "before an evaluation", "评测之前";
    in_evaluation(number): "in evaluation {number}", "第 {number} 次评测期间";
    between_steps(): "between two steps", "两个步骤之间";

    large_prompt(bytes): "a prompt of MAIN has {bytes} bytes, over 200 KB", "MAIN 的一份提示有 {bytes} 字节，超过 200 千字节";
    subloop_often(percent): "the sub-loop was entered in {percent}% of the tester's runs", "测试方的运行中有 {percent}% 进入了修复循环";
    only_loop_failed(): "the only repair loop did not fix the failure", "唯一一次修复循环没有修复失败";
    no_loop_worked(loops): "none of the {loops} repair loops fixed the failure", "{loops} 次修复循环都没有修复失败";
    few_loops_worked(passed, loops): "only {passed} of the {loops} repair loops fixed the failure", "{loops} 次修复循环中只有 {passed} 次修复了失败";
    summaries_failed(percent): "{percent}% of the summaries failed: the verdict of a report was not found", "{percent}% 的摘要失败：没有找到报告的结论";
    cache_seldom(percent): "the cache of summaries helped in {percent}% of the looks", "摘要缓存的命中率为 {percent}%";

    works(stage, by, what): "{stage} works: {by}, {what}", "{stage} 开始工作：{by}，{what}";
    by_program(name): "the program {name}", "程序 {name}";
    subloop_number(number): " (sub-loop {number})", "（修复循环第 {number} 次）";
    corrects(): "correcting its refused answer", "改正被拒绝的回答";
    prompt_size(tokens): "prompt of {tokens} tokens", "提示 {tokens} tokens";
    continues_stage(): "continuing after its last step", "从上一步之后继续";
    heard(bytes): ", {bytes} bytes heard", "，已收到 {bytes} 字节";
    seconds(seconds): "{seconds} s", "{seconds} 秒";

    files_are_back(stage, count, kept): "{stage} was interrupted: {count} files are back to what they were before it; what it had changed is kept as snapshot {kept}", "{stage} 被中断：{count} 个文件已恢复到它开始之前的样子；它的改动保存在快照 {kept} 中";
    plan_stays(problems): "the plan stays as it is: {problems}", "计划保持不变：{problems}";
    processes_ended(count): "{count} processes that the interrupted stage had left were ended", "已结束被中断的阶段留下的 {count} 个进程";
    torn_record(bytes): "a torn record of {bytes} bytes was cut off the journal: it was never acknowledged", "日志末尾有一条不完整的记录（{bytes} 字节），已截去：它从未被确认";
    other_setup(before, now): "this run began with {before}; continuing with {now}", "本次运行开始时使用 {before}；现在使用 {now} 继续";
    gate_again(command): "the gate `{command}` was interrupted and its result is unknown: it is run again", "检查命令 `{command}` 被中断，结果未知：将重新运行";
    package_is_folder(path): "no package is handed over: {path} is a folder", "没有移交文件包：{path} 是文件夹";
    no_package(path, error): "no package is handed over ({path}): {error}", "没有移交文件包（{path}）：{error}";
    made_board(path, pack, language): "made {path}: pack {pack} ({language})", "已创建 {path}：包 {pack}（{language}）";
    using_board(project): "using the blackboard of {project}", "使用 {project} 的黑板";
    uncommitted(counted, count, it): "{counted} in the work tree; snapshots include {it}, `baton diff` leaves {it} out", "工作区有 {count} 处未提交的改动；快照包含这些改动，`baton diff` 不显示";
    no_kind_of_project(): "no kind of project was recognised", "未能识别项目类型";
    looked_for(tools): "looked for {tools}", "查找过 {tools}";
    no_coverage(how, least): "no tool that measures test coverage for the whole project was found ({how}): this run does not ask for the policy's {least}%", "没有找到能测量整个项目测试覆盖率的工具（{how}）：本次运行不要求策略规定的 {least}%";
    gates_set(gates): "gates: {gates}", "检查命令：{gates}";
    gate_on(command, agents): "`{command}` on {agents}", "`{command}`（用于 {agents}）";
    no_gate(how): "no gate is set: only the agents' own reports will confirm the result; {how}", "没有设置检查命令：结果只由代理自己的报告确认；{how}";
    gate_hint(): "`baton gate add \"COMMAND\"` adds a command that does", "用 `baton gate add \"COMMAND\"` 添加检查命令";
    gates_found(commands): "found: {commands}", "找到可用的命令：{commands}";
    note(words): "note: {words}", "提示：{words}";

    files_changed(files): "files changed: {files}", "改动的文件：{files}";
    no_files(): "none", "没有";
    gates_passed(gates): "gates passed: {gates}", "通过的检查命令：{gates}";
    no_gates_passed(): "gates passed: none", "没有检查命令通过";
    none_are_set(): "gates passed: none are set", "没有设置检查命令";
    nothing_confirms(): "no gate is set: nothing but the agents' own reports confirms this result", "没有设置检查命令：除代理自己的报告外，没有任何东西确认这个结果";
    overridden(line): "override: {line}", "未采纳的审查结论：{line}";
    run_figures(iterations, stages, time, tokens, cost): "{iterations}, {stages}, {time}, {tokens}, cost {cost}", "{iterations}，{stages}，{time}，{tokens}，费用：{cost}";
    iterations(counted, count): "{counted}", "{count} 轮";
    stages(counted, count): "{counted}", "{count} 个阶段";
    tokens_used(tokens): "{tokens} tokens", "{tokens} tokens";
    tokens_counted(tokens): "{tokens} tokens counted", "已统计 {tokens} tokens";
    parked(): "parked; `baton resume` continues", "已暂停；用 `baton resume` 继续";
    progress_saved(): "Progress is saved. Fix the cause, then run `baton resume`.", "进度已保存。排除原因后运行 `baton resume`。";
    question_stays(): "The question stays open; `baton answer` continues.", "问题仍待回答；用 `baton answer` 继续。";
    stopped_now(): "Stopped; `baton resume` continues.", "已停止；用 `baton resume` 继续。";
    stopping(): "Stopping after this stage. Press Ctrl-C again to stop now.", "本阶段结束后停止。再按一次 `Ctrl-C` 立即停止。";
    run_abandoned(run): "Run {run} abandoned. Its files are unchanged; you can start a new run.", "已放弃运行 {run}。文件没有改动；可以开始新的运行。";
    asked_to_stop(pid): "Asked process {pid} to stop after its current stage; `baton resume` continues.", "已要求进程 {pid} 在当前阶段结束后停止；用 `baton resume` 继续。";
    process_stopped(pid): "Process {pid} stopped; `baton resume` continues where it was.", "进程 {pid} 已停止；用 `baton resume` 从原处继续。";
    process_killed(pid): "Process {pid} did not stop and was killed; `baton resume` continues where it was.", "进程 {pid} 没有停止，已被强行结束；用 `baton resume` 从原处继续。";

    no_run_yet(): "no run yet; `baton run \"task\"` begins one", "还没有运行；用 `baton run \"任务\"` 开始";
    row_run(): "run", "运行";
    row_state(): "state", "状态";
    row_iteration(): "iteration", "轮次";
    iteration_used(iteration, used, most): "{iteration} ({used} of {most} used)", "{iteration}（已用 {used} 轮，最多 {most} 轮）";
    row_stages(): "stages", "阶段";
    decisions_of(counted, count, main): "{counted} of {main}", "{main} 决策 {count} 次";
    corrections(counted, count): "{counted}", "改正 {count} 次";
    row_time(): "time", "时间";
    row_tokens(): "tokens", "tokens";
    counted_tokens(tokens): "{tokens} counted", "已统计 {tokens}";
    from_cache(tokens): " ({tokens} from a cache)", "（其中 {tokens} 来自缓存）";
    row_cost(): "cost", "费用";
    cost_at_least(cost, counted, count): "at least {cost} ({counted} of unknown cost)", "至少 {cost}（{count} 个阶段费用未知）";
    row_subloops(): "sub-loops", "修复循环";
    subloop_figures(loops, runs, count, passed, time, saved, saved_count): "{loops} in {runs} of the tester, {passed} repaired, {time}, {saved} saved", "测试方运行 {count} 次，进入 {loops} 次，修复 {passed} 次，{time}，节省决策 {saved_count} 次";
    row_overturned(): "overturned", "被推翻";
    overturned_figures(passes, finishes, passed, finished): "{passes}, {finishes}", "通过 {passed} 次，结束 {finished} 次";
    row_void(): "void pass", "失效的通过";
    row_override(): "override", "未采纳";
    row_prompt(): "MAIN prompt", "MAIN 的提示";
    prompt_sizes(average, most): "{average} average, {most} max", "平均 {average}，最大 {most}";
    row_summaries(): "summaries", "摘要";
    summary_figures(hits, extracted): "{hits} from the cache, {extracted} extracted", "缓存 {hits} 份，提取 {extracted} 份";
    failed_figures(failed): ", {failed} failed", "，失败 {failed} 份";
    warning_line(words): "warning: {words}", "警告：{words}";
    info_line(words): "info: {words}", "信息：{words}";
}
