//! Why a decision, a report or a finish is refused, and what the history says about an iteration.

use super::Language;

impl Language {
    /// Between clauses of one line.
    pub fn separator(self) -> &'static str {
        match self {
            Language::English => "; ",
            Language::Chinese => "；",
        }
    }

    /// Between the last two of several possibilities.
    pub fn or(self) -> &'static str {
        match self {
            Language::English => " or ",
            Language::Chinese => " 或 ",
        }
    }
}

messages! {
    changed_after(files): "files changed after it: {files}", "其后有文件变动：{files}";
    task_not_judged(verifiers): "no report of {verifiers} in this run is about it", "本次运行中还没有 {verifiers} 评判它的报告";
    task_did_not_pass(agent, verdict, iteration): "the newest verdict about it is {verdict}, of `{agent}` in iteration {iteration}", "对它的最新结果是 {verdict}（`{agent}`，第 {iteration} 轮）";
    work_not_judged(next, agent, task, of, iteration): "`{next}` may not run: `{agent}` has not judged `{task}` since `{of}` worked on it in iteration {iteration}", "不能派 `{next}`：`{of}` 在第 {iteration} 轮做了 `{task}`，其后 `{agent}` 还没有评判过它";
    work_did_not_pass(next, agent, task, verdict): "`{next}` may not run: the newest verdict of `{agent}` about `{task}` is {verdict}", "不能派 `{next}`：`{agent}` 对 `{task}` 的最新结果是 {verdict}";
    work_names_no_task(next, agent, of): "`{next}` may not run: the newest report of `{of}` names no task, so `{agent}` cannot judge its work", "不能派 `{next}`：`{of}` 的最新报告没有写明任务，`{agent}` 无从评判";
    not_while_open(next, task, finding): "`{next}` may not run while a finding about `{task}` is open: {finding}", "`{task}` 还有未解决的问题，不能派 `{next}`：{finding}";
    finding_is_open(agent, iteration, text): "{agent} found in iteration {iteration}: {text}; it is settled when a verifier passes the task", "{agent} 在第 {iteration} 轮指出：{text}；负责评判的代理通过该任务之后才算解决";
    finding_needs_work(agent, iteration, text, settlers): "{agent} found in iteration {iteration}: {text}; {settlers} must work on it first, then a verifier must pass the task", "{agent} 在第 {iteration} 轮指出：{text}；须先由 {settlers} 处理，再由负责评判的代理通过该任务";
    open_finding(tasks, agent, iteration, text): "open, {tasks}, {agent} in iteration {iteration}: {text}", "未解决（{tasks}，{agent} 第 {iteration} 轮）：{text}";
    worked_finding(tasks, agent, iteration, text): "worked on, to be judged again, {tasks}, {agent} in iteration {iteration}: {text}", "已处理，待再次评判（{tasks}，{agent} 第 {iteration} 轮）：{text}";
    findings_in_report(agent, iteration, count, worked): "not settled: {count} of the report of {agent}, iteration {iteration} ({worked} worked on since)", "{agent} 第 {iteration} 轮报告指出的 {count} 条还没有经核验确认解决（其后处理过 {worked} 条）";
    findings_to_solve(): "Findings that you can solve. Solve all of them now, and say of each what you did:", "由你解决的问题，这次全部解决，并逐条写明怎么处理的：";
    findings_to_judge(): "This is work after findings. Say of each of them whether it is resolved now:", "这是返工之后的工作。下列问题请逐条说明现在是否已解决：";
    order_before(agent, iteration): "MAIN's order to {agent} about these tasks in iteration {iteration}. What it asks of the result holds here, too; how to work and what not to touch is said to {agent} alone:", "MAIN 在第 {iteration} 轮就这些任务给 {agent} 的工单。其中对成果的要求在这里同样适用；做法和禁止事项只对 {agent} 有效：";
    verdict_in(agent, verdict, iteration): "{agent} {verdict} (iteration {iteration})", "{agent} {verdict}（第 {iteration} 轮）";
    verdict_with_subject(agent, verdict, iteration, subject): "{agent} {verdict} (iteration {iteration}: {subject})", "{agent} {verdict}（第 {iteration} 轮：{subject}）";
    not_final(task, status, why): "task `{task}` may not become `{status}`: {why}", "任务 `{task}` 不能设为 `{status}`：{why}";
    file_is_missing(file): "its acceptance names `{file}`, and there is no such file in the project; write the file, or correct the acceptance", "它的验收标准写着 `{file}`，项目里没有这个文件；先写出文件，或更正验收标准";
    not_dropped(task, finding): "task `{task}` may not be dropped: {finding}; only after the user has answered a question about it", "不能从计划中去掉任务 `{task}`：{finding}；须先问过用户并得到回答";
    tasks_missing(prefix): "the report does not name the tasks that it is about: add the line `{prefix} M1-T1` with their ids", "报告没有写明评判的是哪些任务：请补上 `{prefix}M1-T1` 这样的一行，写出任务编号";
    task_unknown(task): "`{task}` is not a task of the plan", "计划里没有任务 `{task}`";
    decided_by_rule(agent, iteration, next): "{agent} passed in iteration {iteration}, so {next} follows by rule", "{agent} 在第 {iteration} 轮通过，按规则由 {next} 接着做";
    acceptance_of_task(text): "acceptance: {text}", "验收标准：{text}";
    title_since_own(cut): "What changed in the project since your own last report{cut}", "自你上一份报告以来项目的改动{cut}";
    its_beginning(): " (its beginning; read the files for the rest)", "（只有开头，其余请读文件）";
    title_of_verdicts(): "Tasks: the newest verdict of each agent, and open findings", "各任务：每个代理的最新结果和未解决的问题";
    plan_added(id): "{id} added", "新增 {id}";
    plan_dropped(id): "{id} dropped", "去掉 {id}";
}
