//! What the workflow itself writes about a run: open points of FINISH, passes that do not count, the
//! values of the history, questions of Baton's own and reasons to stop.

messages! {
    no_task_planned(): "the plan has no task", "计划里没有任务";
    plan_is_unreadable(): "the plan cannot be read", "计划无法读取";
    not_every_task(status, tasks): "not every task is `{status}`: {tasks}", "还有任务不是 `{status}`：{tasks}";
    review_says(review, verdict): "{review} says {verdict}", "{review} 的结果：{verdict}";
    no_verdict(): "no verdict", "没有结果";
    percent_not_reported(agent, field, least): "`{agent}` has not reported {field}; the minimum is {least}%", "`{agent}` 没有报告 {field}；最低要求是 {least}%";
    percent_too_low(field, percent, least): "{field} is {percent}%, below the minimum of {least}%", "{field} 为 {percent}%，没有达到最低要求 {least}%";
    percent_missing(field, least): "the {field} line is missing; the minimum is {least}%", "没有 {field} 这一行；最低要求是 {least}%";

    changed_during(agent, files): "changed while {agent}, which may not write, ran: {files}", "{agent} 无权写文件，但在它运行期间有改动：{files}";
    no_report_of(agent): "there is no report of `{agent}` in this run", "本次运行中没有 `{agent}` 的报告";
    newest_did_not_pass(agent, verdict, iteration): "the newest report of `{agent}` did not pass: {verdict}, iteration {iteration}", "`{agent}` 的最新报告没有通过：{verdict}，第 {iteration} 轮";
    wrote_after(agent): "`{agent}` wrote after it", "其后 `{agent}` 又改过文件";
    wrote_files_after(agent, files): "`{agent}` wrote after it: {files}", "其后 `{agent}` 又改过：{files}";
    own_files_changed_after(files): "its files changed after it: {files}", "其后它写的文件有变动：{files}";
    passed_but(agent, iteration, changed): "`{agent}` passed in iteration {iteration}, but {changed}", "`{agent}` 在第 {iteration} 轮通过，但{changed}";
    not_after_stale_pass(next, agent, iteration, changed): "`{next}` may not run: `{agent}` passed in iteration {iteration}, but {changed}", "不能派 `{next}`：`{agent}` 在第 {iteration} 轮通过，但{changed}";

    iterations_used(most): "all {most} iterations of the run are used up", "本次运行的 {most} 轮已全部用完";
    second_budget_used(used, most): "the budget of seconds is used up: {used} of {most}", "时间预算已用完：已用 {used} 秒，上限 {most} 秒";
    token_budget_used(used, most): "the budget of tokens is used up: {used} of {most}", "token 预算已用完：已用 {used}，上限 {most}";
    cost_budget_used(used, most): "the budget of nano-dollars is used up: {used} of {most}", "费用预算已用完：已用 {used} 纳美元，上限 {most} 纳美元";
    prompt_over_stage(tokens, most): "a prompt of {tokens} tokens would exceed the budget of a stage: {most}", "提示有 {tokens} tokens，会超出单个阶段的预算：{most}";
    prompt_over_budget(tokens, used, most): "a prompt of {tokens} tokens would exceed the budget: {used} of {most} are used", "提示有 {tokens} tokens，会超出预算：已用 {used}，上限 {most}";
    tokens_not_counted(count): "the tokens of {count} stages were not counted, so the budget of tokens cannot be kept", "{count} 个阶段的 token 没有计数，无法遵守 token 预算";
    costs_unknown(count): "the cost of {count} stages is unknown, so the budget of cost cannot be kept", "{count} 个阶段的费用未知，无法遵守费用预算";
    same_again(): "the same agent got the same work order with the same plan, and nothing came out differently, twice running", "同一个代理在计划不变的情况下连续两次得到同样的工单，结果也完全一样";
    stopped_by_user(): "the person chose to stop", "用户选择停止";
    changed_others_files(stage, files): "{stage} changed files of the blackboard that are not its own, and they were restored: {files}", "{stage} 改动了黑板上不归它的文件，已还原：{files}";

    title_for_user(): "Only a person can resolve this", "只有用户才能解决";
    title_same_blocker(): "The same blocker again", "同一个阻塞反复出现";
    same_blocker(count, blocker): "This blocker has stood in {count} iterations running: {blocker}", "这个阻塞已连续出现 {count} 轮：{blocker}";
    title_cannot_finish(): "The run cannot be finished", "运行无法结束";
    finishes_refused(count): "{count} attempts to finish were refused.", "已有 {count} 次结束的尝试被拒绝。";
    title_no_progress(): "No progress", "没有进展";
    plan_unchanged(count): "The plan has not changed in {count} iterations.", "计划已有 {count} 轮没有变化。";
    option_continue(): "Go on; what you write as a comment is shown to MAIN", "继续；你写的说明会给 MAIN 看";
    option_stop(): "Stop the run here; it can be resumed", "在此停止运行；以后可以恢复";
    asked_by_baton(): "Baton asks, because the run does not progress by itself", "运行自己无法推进，因此由 Baton 提问";

    files_await_approval(agent): "{agent} may not run before its files are approved", "用户批准相关文件之前，{agent} 不能运行";
    files_not_approved(problems): "may not run before the user has approved its files: {problems}", "用户批准相关文件之前不能运行：{problems}";
    user_wants_changes(): "the user wants changes", "用户要求修改";
    approved_files_changed(): "the files are not the ones that the user approved; they have changed since", "文件与用户批准的不同：批准之后有变动";
    file_to_approve(path, bytes, digest): "- {path} ({bytes} bytes, {digest})", "- {path}（{bytes} 字节，{digest}）";

    agent_failed(agent): "{agent} failed", "{agent} 失败";
    agent_verdict(agent, verdict): "{agent} {verdict}", "{agent} {verdict}";
    overturned_because(why): " (overturned: {why})", "（被推翻：{why}）";
    gate_line_passed(command): "passed: {command}", "通过：{command}";
    gate_line_failed(reason, command): "failed ({reason}): {command}", "未通过（{reason}）：{command}";
    finish_accepted(finish, reason): "{finish} accepted: {reason}", "{finish} 成立：{reason}";
    finish_has_open_points(finish, open, check, reason): "{finish} refused: {open} (reason of {check}: {reason})", "{finish} 不成立：{open}（{check} 的理由：{reason}）";
    finish_check_chose(finish, check, next, reason): "{finish} refused: {check} chose {next}: {reason}", "{finish} 不成立：{check} 选择了 {next}：{reason}";
    review_overridden(review, verdict, reason): "{review} {verdict} ignored: {reason}", "不采纳 {review} 的 {verdict}：{reason}";
    missing_verdict(): "missing", "结果（缺失）";
    verdict_overturned(agent, why, path): "Baton overturned the verdict of {agent}: {why}. The report as it was written: {path}", "Baton 推翻了 {agent} 的结果：{why}。报告原文：{path}";

    gate_failed_alone(command): "the gate `{command}` failed", "检查命令 `{command}` 未通过";
    gate_failed_with(command, reason): "the gate `{command}` failed ({reason})", "检查命令 `{command}` 未通过（{reason}）";
    whole_gate_output(path): "The whole output of the gate: {path}", "检查命令的完整输出：{path}";
    gate_is_gone(): "(a gate that is no longer set)", "（一条已不再设置的检查命令）";
    policy_changed(): "the policy changed while the run was away", "运行停下期间，策略已改动";

    critical_problems(critical, failed, percent, most): "critical problems touch {critical} of {failed} failed samples ({percent}%, over {most}%)", "{failed} 个未通过的样本中有 {critical} 个涉及严重问题（{percent}%，超过 {most}%）";
    tools_repaired(times, most): "the tools (layer 2) were repaired {times} times of {most}", "工具（第 2 层）已修改 {times} 次，上限 {most} 次";
    checkers_repaired(times, most): "the checkers (layer 3) were repaired {times} times of {most}", "检查器（第 3 层）已修改 {times} 次，上限 {most} 次";
    little_gain(percent, count): "repairing gained less than {percent}% in {count} evaluations", "{count} 次评测中，修改带来的提升不到 {percent}%";
    same_critical_problem(problem, count): "the critical problem {problem} came {count} times", "严重问题 {problem} 出现了 {count} 次";
    samples_not_judged(count): ", {count} could not be judged", "，{count} 个无法评判";
    evaluation_line(passed, total, percent, errors, folder): "{passed} of {total} samples passed ({percent}%){errors}; {folder}", "{total} 个样本中通过 {passed} 个（{percent}%）{errors}；{folder}";
    affected_samples(problem, title, count): "{problem}: {title} ({count} samples)", "{problem}：{title}（{count} 个样本）";
    back_to(line, agent, why): "{line}; back to {agent}: {why}", "{line}；退回 {agent}：{why}";
    evaluation_too_low(number, line, wanted): "evaluation {number}: {line}, {wanted}% wanted", "第 {number} 次评测：{line}，要求 {wanted}%";
    evaluation_refused(why): "the evaluation was refused: {why}", "评测被拒绝：{why}";

    cut_answer(shown, count, path): "[cut: the first {shown} of {count} characters; whole: {path}]", "[已截断：只有前 {shown} 个字符，共 {count} 个；全文：{path}]";
    the_journal(): "the journal", "运行日志";
}
