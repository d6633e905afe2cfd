//! Why an answer of a model is refused, what was expected instead, and the words around both.

// The words around a problem.
messages! {
    problem_in_file(file): "{file}: ", "{file}：";
    problem_at(line, column): "{line}:{column}: ", "第 {line} 行第 {column} 列：";
    problem_in_file_at(file, line, column):
        "{file}:{line}:{column}: ", "{file} 第 {line} 行第 {column} 列：";
    problem_warning(): "warning: ", "警告：";
    problem_expected(expected): "; expected {expected}", "；要求：{expected}";
    problem_meant(word): "; did you mean `{word}`?", "；是否想写 `{word}`？";
    /// A problem of one value, by the path to it.
    problem_in_value(path, problem): "{path}: {problem}", "`{path}`：{problem}";
    problem_in_value_line(path, line, problem):
        "{path}, line {line}: {problem}", "`{path}` 第 {line} 行：{problem}";
    one_of(words): "one of {words}", "{words} 之一";
    all_of(words): "all of {words}", "{words} 缺一不可";
    one_of_them(): "one of them", "只写其一";
    only_once(): "it once", "只写一次";
    nothing_here(): "nothing here", "此处不写内容";
    more_words(count): "… ({count} more)", "……（另有 {count} 个）";

    // Reports.
    report_too_large(bytes, most):
        "the report has {bytes} bytes, more than the {most} (4 MiB) allowed",
        "报告有 {bytes} 字节，超过上限 {most} 字节（4 MiB）";
    report_not_log():
        "a report; long output belongs in a file that it names",
        "只写报告；长输出不写在里面，只写明它在哪个文件中";
    report_is_empty(): "the report is empty", "报告为空";
    report_begins(prefix): "a report that begins with `{prefix} N`", "以 `{prefix} N` 开头的报告";
    report_not_utf8(byte):
        "the report is not UTF-8: found the byte {byte}",
        "报告不是 UTF-8 编码：此处的字节是 `{byte}`";
    utf8_text(): "UTF-8 text", "UTF-8 文本";

    iteration_line(): "the iteration line", "轮次行";
    verdict_line(): "the verdict line", "结论行";
    blockers_line(): "the blockers line", "阻塞行";
    line_is_empty(line): "{line} is empty", "{line}为空";
    line_is_missing(line): "{line} is missing", "缺少{line}";
    line_missing_after_fence(line, open):
        "{line} is missing (the code fence of line {open} is never closed)",
        "缺少{line}（第 {open} 行开始的代码块没有结束）";
    line_missing_in_fence(line, shown):
        "{line} is missing (`{shown}` is in a code fence)",
        "缺少{line}（`{shown}` 写在代码块里）";
    line_missing_in_open_fence(line, shown, open):
        "{line} is missing (`{shown}` is in the code fence of line {open}, which is never closed)",
        "缺少{line}（`{shown}` 写在第 {open} 行开始的代码块里，而该代码块没有结束）";
    line_missing_not_key(line, shown):
        "{line} is missing (`{shown}` is not written as a key line)",
        "缺少{line}（`{shown}` 不是按关键行的格式写的）";
    line_is_repeated(line, first):
        "{line} is repeated here (first in line {first})",
        "此处重复了{line}（首次出现在第 {first} 行）";

    iteration_too_large(word): "iteration `{word}` is too large", "轮次 `{word}` 过大";
    iteration_not_number(word):
        "iteration `{word}` is not a whole number", "轮次 `{word}` 不是整数";
    iteration_foreign(number, expected):
        "the report is of iteration {number}, not of iteration {expected}",
        "这是第 {number} 轮的报告，当前是第 {expected} 轮";

    verdict_form(prefix, allowed):
        "`{prefix}` and one of {allowed}", "`{prefix}` 后写 {allowed} 之一";
    verdict_not_allowed(word): "verdict `{word}` is not allowed", "不允许的结论 `{word}`";
    verdict_with_blocker(verdict, first):
        "verdict `{verdict}` with a blocker: `{first}`",
        "结论是 `{verdict}`，却写了阻塞：`{first}`";
    verdict_with_blockers(verdict, first):
        "verdict `{verdict}` with blockers: `{first}`",
        "结论是 `{verdict}`，却写了多个阻塞：`{first}` 等";
    clear_or_verdict(clear): "`{clear}`, or another verdict", "阻塞写 `{clear}`，或改用其他结论";
    verdict_without_blocker(verdict):
        "verdict `{verdict}` without any blocker", "结论是 `{verdict}`，却没有写阻塞";
    blocker_or_verdict(): "what blocks, or another verdict", "写明阻塞，或改用其他结论";

    blockers_form(prefix, clear):
        "`{prefix}` and `{clear}` or what blocks", "`{prefix}` 后写 `{clear}` 或阻塞";
    blockers_too_many(most): "the list has more than {most} blockers", "列出的阻塞超过 {most} 个";
    blockers_that_decide():
        "the ones that decide; a log belongs into a code fence",
        "只列起决定作用的阻塞；日志放进代码块";
    blockers_interrupted():
        "the list of blockers was interrupted before this item", "阻塞列表在这一项之前被打断";
    blockers_together(): "items without other lines between them", "列表项之间不夹其他行";
    blockers_line_and_list(shown):
        "the blockers line already says `{shown}`, and a list follows it here",
        "阻塞行已写了 `{shown}`，此处又列出阻塞";
    blockers_line_or_list():
        "either the rest of the line or the list", "写在行内或写成列表，二选一";
    blockers_line_blank():
        "the blockers line is empty and no list follows", "阻塞行为空，其后也没有列表";
    blockers_line_form(clear):
        "`{clear}`, or what blocks on this line or as a list under it",
        "写 `{clear}`，或把阻塞写在本行或其下的列表中";
    clear_among_blockers(word): "`{word}` is listed with other blockers", "`{word}` 与其他阻塞并列";
    clear_or_blockers(word):
        "either `{word}` alone or the blockers", "只写 `{word}`，或只写阻塞";
    blocker_almost_clear(shown, clear):
        "blocker `{shown}` is almost, but not exactly, `{clear}`",
        "阻塞项 `{shown}` 与 `{clear}` 相近，但不完全相同";
    clear_alone(clear): "`{clear}` alone, or what blocks", "只写 `{clear}`，或写明阻塞";
    blocker_says_nothing(shown): "blocker `{shown}` says nothing", "阻塞项 `{shown}` 没有内容";
    blocker_in_words(): "what blocks, in words", "用文字写明阻塞";
    blockers_too_long(count):
        "the blockers have {count} characters together", "阻塞共有 {count} 个字符";
    blockers_shorter(most):
        "at most {most}; details belong into the report's text",
        "不超过 {most} 个；细节写进报告正文";

    // JSON and its values.
    document_too_large(bytes, most):
        "the text has {bytes} bytes, more than the {most} allowed",
        "文本有 {bytes} 字节，超过上限 {most} 字节";
    json_second_value(rest):
        "a second JSON value after the end of the JSON: `{rest}`",
        "JSON 结束后又有一个 JSON 值：`{rest}`";
    json_text_after(rest):
        "text after the end of the JSON: `{rest}`", "JSON 结束后还有内容：`{rest}`";
    json_nothing_more(): "nothing more", "其后不写任何内容";
    json_too_deep(most):
        "the JSON is nested deeper than {most} levels", "JSON 嵌套超过 {most} 层";
    json_too_many_values(most):
        "the JSON has more than {most} values", "JSON 中的值超过 {most} 个";
    json_too_many_keys(most): "the object has more than {most} keys", "对象的键超过 {most} 个";
    json_value(): "a JSON value", "一个 JSON 值";
    json_key(): "a key in double quotes", "用双引号括起的键";
    json_colon(): "`:` after the key", "键后的 `:`";
    json_comma_or(close): "`,` or `{close}`", "`,` 或 `{close}`";
    json_string_open(): "a string is never closed", "字符串没有结束";
    json_string_end(): "`\"` at its end", "以 `\"` 结尾";
    json_control_character():
        "`\\n` or another escape for a control character", "用 `\\n` 等转义写控制字符";
    json_escapes():
        "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX",
        "`\\\"`、`\\\\`、`\\/`、`\\b`、`\\f`、`\\n`、`\\r`、`\\t`、`\\uXXXX` 之一";
    json_escape_digits():
        "`\\u` without four hex digits", "`\\u` 后没有四位十六进制数字";
    json_half_pair(code):
        "`\\u{code}` is half of a surrogate pair", "`\\u{code}` 只是 `UTF-16` 代理对的一半";
    json_both_halves():
        "both halves, `\\ud800` to `\\udbff` first",
        "写全 `UTF-16` 代理对，`\\ud800` 到 `\\udbff` 在前";
    json_ends_in_escape(): "the JSON ends inside an escape", "JSON 在转义中间结束";
    json_not_escape(letter): "`\\{letter}` is not an escape", "`\\{letter}` 不是有效的转义";
    json_number_form(raw):
        "the number `{raw}` is not written as JSON writes numbers",
        "数字 `{raw}` 不符合 JSON 的写法";
    json_number_range(raw): "the number `{raw}` is out of range", "数字 `{raw}` 超出范围";
    json_ends_early(): "the JSON ends too early", "JSON 没有写完";
    json_unexpected(found): "`{found}` is not expected here", "此处不应出现 `{found}`";
    key_twice(key): "the key `{key}` is written twice", "键 `{key}` 重复";
    key_unknown(key): "the key `{key}` is not known", "未知的键 `{key}`";
    key_missing(key): "the key `{key}` is missing", "缺少键 `{key}`";
    value_misfit(kind): "{kind} does not fit here", "此处不能是{kind}";
    value_unknown(word): "`{word}` is not known here", "未知的值 `{word}`";

    kind_null(): "null", "空值（`null`）";
    kind_boolean(): "true or false", "布尔值（`true` 或 `false`）";
    kind_number(): "a number", "数字";
    kind_whole_number(): "a whole number", "整数";
    kind_natural_number(): "a whole number from 0", "非负整数";
    kind_fraction(): "a number with a fraction", "小数";
    kind_string(): "a string", "字符串";
    kind_list(): "a list", "列表";
    kind_object(): "an object", "对象";
    kind_other(): "this value", "这种值";

    // Decisions.
    reads_with(key):
        "`{key}` cannot be answered together with `reads`", "`{key}` 不能与 `reads` 同时写";
    reads_alone(): "`reads` and nothing else, or a decision", "只写 `reads`，或只写决策";
    reads_count():
        "`reads` is not a list of 1 to 4 paths", "`reads` 不是由 1 到 4 个路径组成的列表";
    reads_example():
        "for example {{\"reads\": [\"reports/report_x.md\"]}}",
        "例如 `{{\"reads\": [\"reports/report_x.md\"]}}`";
    reads_refused(path): "`{path}` cannot be read", "`{path}` 不能读取";
    reads_folders():
        "a path of the blackboard under `reports/`, `memory/` or `handoffs/`",
        "黑板上 `reports/`、`memory/` 或 `handoffs/` 下的路径";
    decision_not_object(kind): "the decision is {kind}, not an object", "决策是{kind}，不是对象";
    decision_is_empty(): "the decision is empty", "决策为空";
    one_json_object(): "one JSON object", "一个 JSON 对象";
    one_json_object_first():
        "one JSON object, `{{` first", "一个 JSON 对象，以 `{{` 开头";
    json_fence_before(): "there is a code fence before the JSON", "JSON 之前有代码块标记";
    json_text_before(shown):
        "there is text before the JSON: `{shown}`", "JSON 之前有其他内容：`{shown}`";
    null_value(): "null", "写 `null`";
    some_text(): "text", "填写内容";
    value_is_empty(path): "`{path}` is empty", "`{path}` 为空";
    next_agent_unknown(word):
        "next_agent `{word}` is not an agent", "`next_agent` 的值 `{word}` 不是代理";
    question_missing(user):
        "`{user}` needs a question with its options", "`{user}` 要附上问题和选项";
    question_flat_keys():
        "`decision_title`, `question` and `options`", "`decision_title`、`question` 和 `options`";
    question_form():
        "`question`: {{title, text, options, recommended_option_id}}",
        "`question: {{title, text, options, recommended_option_id}}`";
    question_unasked(user, next):
        "a question is for `{user}` only, next_agent is `{next}`",
        "只有 `{user}` 才带问题，而 `next_agent` 是 `{next}`";
    two_work_orders():
        "`task` and `task_body` are two different work orders",
        "`task` 和 `task_body` 是两份不同的工单";
    no_change_is_null(problem):
        "{problem} (no change is null)", "{problem}（不改计划就写 `null`）";
    dev_plan_forms():
        "null, update statements or {{\"replace\": \"<whole plan>\"}}",
        "`null`、更新语句或 `{{\"replace\": \"<whole plan>\"}}`";
    override_only_in(moment):
        "finish_review_override is allowed only in {moment}",
        "`finish_review_override` 只能在 `{moment}` 中使用";
    override_unknown(word):
        "finish_review_override `{word}` is not known",
        "`finish_review_override` 的值 `{word}` 无效";
    null_or_ignore(): "null or `ignore`", "`null` 或 `ignore`";
    options_count(count):
        "a question has 2 to 4 options, this one {count}",
        "一个问题要有 2 到 4 个选项，这里有 {count} 个";
    option_twice(id): "the option `{id}` is written twice", "选项 `{id}` 重复";
    recommended_unknown(id):
        "recommended_option_id `{id}` is not an option",
        "`recommended_option_id` 的值 `{id}` 不在选项之中";
    routing_needs_pass(agent, needed):
        "`{agent}` may not run before the newest report of `{needed}` passed",
        "`{needed}` 的最新报告通过之前，不能派 `{agent}`";
    routing_after_fail(last, agent):
        "`{last}` failed: `{agent}` may not be next", "`{last}` 未通过，下一步不能派 `{agent}`";
    routing_after_block(last, agent):
        "`{last}` was blocked: `{agent}` may not be next",
        "`{last}` 受阻，下一步不能派 `{agent}`";

    // Plans and their statements.
    plan_too_large(bytes, most):
        "the plan has {bytes} bytes, more than the {most} allowed",
        "计划有 {bytes} 字节，超过上限 {most} 字节";
    plan_fence_open():
        "this code fence is never closed: what follows it is not read",
        "此处的代码块没有结束，其后的内容不会被读取";
    plan_comment_open():
        "this comment is never closed: what follows it is not read",
        "此处的注释没有结束，其后的内容不会被读取";
    plan_too_many_milestones(most):
        "the plan has more than {most} milestones", "计划中的里程碑超过 {most} 个";
    plan_too_many_tasks(most): "the plan has more than {most} tasks", "计划中的任务超过 {most} 个";
    plan_too_many_fields(most):
        "the plan has more than {most} fields in one task", "计划中有任务的字段超过 {most} 个";
    plan_unreadable_after(problem):
        "the plan could not be read after this: {problem}", "执行这条语句后计划无法读取：{problem}";
    id_taken(id): "the id `{id}` is already taken", "编号 `{id}` 已被使用";
    id_taken_in_line(id, line):
        "the id `{id}` is already taken in line {line}", "编号 `{id}` 已在第 {line} 行使用";
    id_of_its_own(): "an id of its own", "换一个编号";
    task_missing(id): "there is no task `{id}`", "没有任务 `{id}`";
    task_added_before(id):
        "`add {id}: <title>` before it, since the plan has no task",
        "先写 `add {id}: <title>`，因为计划里还没有任务";
    milestone_missing(id): "there is no milestone `{id}`", "没有里程碑 `{id}`";
    milestone_added_before(id): "`add {id}: <title>` before it", "先写 `add {id}: <title>`";
    task_without_status(id): "task `{id}` has no status", "任务 `{id}` 没有状态";
    task_status_line(status):
        "a line `- status: {status}` under it", "在其下写一行 `- status: {status}`";
    task_status_unknown(word, id):
        "status `{word}` of task `{id}` is not known", "任务 `{id}` 的状态 `{word}` 未知";
    status_unknown(word): "status `{word}` is not known", "状态 `{word}` 未知";
    status_refused(id, status, why):
        "task `{id}` may not become `{status}`: {why}", "任务 `{id}` 不能设为 `{status}`：{why}";

    statements_too_many(most): "there are more than {most} statements", "语句超过 {most} 条";
    replacement_instead():
        "a replacement of the whole plan instead", "改用 `replace` 替换整个计划";
    statement_missing(): "there is no statement", "没有语句";
    statement_unknown(shown): "`{shown}` is not a statement", "`{shown}` 不是语句";
    statement_malformed(shown, why): "`{shown}`: {why}", "`{shown}`：{why}";
    statement_forms():
        "`update <ID> status to <STATUS>`, `add <ID>: <title> [under <MILESTONE>]`, \
         `set <ID> evidence: <text>` or `set <ID> acceptance: <text>`",
        "`update <ID> status to <STATUS>`、`add <ID>: <title> [under <MILESTONE>]`、\
         `set <ID> evidence: <text>` 或 `set <ID> acceptance: <text>`";
    update_form():
        "`update <ID> status to <STATUS>`", "`update <ID> status to <STATUS>`";
    add_form():
        "`add <ID>: <title> [under <MILESTONE>]`", "`add <ID>: <title> [under <MILESTONE>]`";
    set_forms():
        "`set <ID> evidence: <text>` or `set <ID> acceptance: <text>`",
        "`set <ID> evidence: <text>` 或 `set <ID> acceptance: <text>`";
    statement_bad_id():
        "the id is not one (letters, digits, `-`, as `M1-T2`)",
        "编号无效（由字母、数字和 `-` 组成，如 `M1-T2`）";
    statement_no_status(): "the status is missing", "缺少状态";
    statement_after_status(): "there is text after the status", "状态之后还有内容";
    statement_no_status_to(): "`status to` is missing", "缺少 `status to`";
    statement_no_colon(): "a colon is missing", "缺少冒号";
    statement_no_title(): "a title is missing", "缺少标题";
    statement_bad_milestone():
        "what follows `under` is not a milestone", "`under` 之后不是里程碑";
    statement_no_milestone():
        "the id does not tell its milestone: say `under <MILESTONE>`",
        "从编号看不出所属的里程碑，要写 `under <MILESTONE>`";
    statement_no_field():
        "the field is missing: evidence or acceptance", "缺少字段：`evidence` 或 `acceptance`";
    statement_bad_field():
        "only evidence and acceptance can be set (a status by `update`)",
        "只能设置 `evidence` 和 `acceptance`（状态用 `update` 改）";
    statement_no_text(): "the text is missing", "缺少内容";

    // The rules of a run.
    reads_limit(count):
        "files were read {count} times for this decision already", "这次决策已经读过 {count} 次文件";
    reads_decision(): "a decision", "作出决策";
    next_not_due(next, why): "`{next}` may not be next: {why}", "下一步不能派 `{next}`：{why}";
    drop_at_finish(id, status):
        "a decision to finish may not drop task `{id}`, which is `{status}`",
        "决定结束时不能去掉任务 `{id}`，它的状态是 `{status}`";
    done_unproved(id, status, tester):
        "task `{id}` may not become `{status}` before a passing report of `{tester}` names it",
        "通过的 `{tester}` 报告点到任务 `{id}` 之后，才能设为 `{status}`";
    work_unproved(id, fixer, tester):
        "task `{id}` may not go to `{fixer}` before a report of `{tester}` names it",
        "`{tester}` 的报告点到任务 `{id}` 之后，才能交给 `{fixer}`";
    agent_first(agent): "`{agent}` first", "先派 `{agent}`";
    no_report_in_run(agents):
        "there is no report of {agents} in this run", "本次运行中还没有 {agents} 的报告";
}
