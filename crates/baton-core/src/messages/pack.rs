//! Texts for a pack whose policy leaves them out: the names of milestones in the history, and the
//! orders that Baton itself gives.

messages! {
    /// `{choice}` and `{n}` are filled in when a milestone is written.
    milestone_user_decision(): "user decision - {{choice}}", "用户决策 - {{choice}}";
    milestone_finish_attempt(): "FINISH attempt #{{n}}", "FINISH 尝试 #{{n}}";
    milestone_plan_update(): "major plan update ({{n}} changes)", "计划重大更新（{{n}} 项）";
    milestone_first_pass(): "first pass", "首次通过";
    milestone_pass_again(): "pass again", "再次通过";
    /// `{iteration}` is filled in when an order is given.
    order_fixer():
        "Resolve the failure that the report above shows, and nothing else. Your report is of iteration {{iteration}}.",
        "只解决上面报告所示的失败，不做别的。你的报告属于第 {{iteration}} 轮（`iteration: {{iteration}}`）。";
    order_tester():
        "The report above answers your last one: it says what was repaired, or what it disputes. Check the failure of your own last report again, and everything that the repair may have touched; judge a disputed test by the task and the acceptance. Your report is of iteration {{iteration}}.",
        "上面的报告答复你的上一份报告：修了什么，或者对什么有异议。重新检查你上一份报告里的失败，以及这次修复可能影响到的一切；有异议的，以用户的任务和验收标准为准来判断。你的报告属于第 {{iteration}} 轮（`iteration: {{iteration}}`）。";
    order_finish_review():
        "Judge the whole work against the task and the user's answers. Your report is of iteration {{iteration}}.",
        "对照用户的任务和回答判断全部工作。你的报告属于第 {{iteration}} 轮（`iteration: {{iteration}}`）。";
    order_finish_check():
        "This is FINISH_CHECK of iteration {{iteration}}. Decide now, with the whole reports above: FINISH again, or who works next. Output exactly one JSON object.",
        "这是第 {{iteration}} 轮的 FINISH_CHECK。根据上面的完整报告现在就做决定：再次 FINISH，或者由谁继续。只输出一个 JSON 对象。";
    order_correction():
        "Your last answer broke the protocol and was refused. This is the exact error. Answer again, whole and corrected, and change nothing else.",
        "你上一个回答违反了协议，已被拒绝。下面是确切的错误。请重新完整作答并改正，其他内容不要动。";
    order_changes():
        "The user did not approve the design and wants this changed:",
        "用户没有批准这份设计，要求作如下修改：";
}
