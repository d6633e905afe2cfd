//! The agent's conversation: who it is, how an action is written, what was wrong with one.

messages! {
    // The system prompt.
    /// For an agent whose pack does not say who works there.
    default_conduct(agent): "You are {agent}, one of several agents that take turns on one project. Your prompt says what you do in your turn and what you may change.",
        "你是 {agent}，和其他几个代理轮流在同一个项目上工作。轮到你时做什么、可以改什么，由你的提示写明。";
    end_without_call(): "When you are done, answer without a tool call. That answer is your last message, in the form that your prompt asks for.",
        "做完后，不再调用工具，直接回答。这个回答就是你的最后一条消息，格式以你的提示为准。";
    end_with_finish(): "When you are done, end with Finish. Its answer is your last message, in the form that your prompt asks for.",
        "做完后用 `Finish` 结束。其中的 `answer` 就是你的最后一条消息，格式以你的提示为准。";
    several_calls(): "One answer may have several calls, also edits and then a command that checks them: they run in order.",
        "一次回答可以有多个调用，也可以先修改、再用一条命令检查：它们按顺序执行。";
    one_call(): "One answer has one call: you see its result before you choose the next one.",
        "一次回答只有一个调用：看到它的结果之后，再决定下一个。";
    project_root(root): "Project root: {root}", "项目根目录：{root}";
    project_rules(): "The project's rules. Follow them, unless the user says otherwise.",
        "项目的规则。请遵守，除非用户另有要求。";
    rules_cut(bytes): "(cut: the file is longer than {bytes} bytes)", "（已截断：文件超过 {bytes} 字节）";

    // How an action is written.
    json_protocol(): "Every answer is one JSON object and nothing else: {{\"thought\": \"…\", \"tool\": \"NAME\", \"arguments\": {{…}}}}. You get its result and answer again. Any other text is refused, also as the last answer. To end, use the tool Finish: {{\"thought\": \"…\", \"tool\": \"Finish\", \"arguments\": {{\"answer\": \"your answer\"}}}}.",
        "每次回答都是一个 JSON 对象，不要有其他内容：{{\"thought\": \"…\", \"tool\": \"NAME\", \"arguments\": {{…}}}}。你会得到它的结果，然后继续回答。其他任何文字都会被拒绝，最后一次回答也一样。要结束，就用工具 `Finish`：{{\"thought\": \"…\", \"tool\": \"Finish\", \"arguments\": {{\"answer\": \"你的回答\"}}}}。";
    react_protocol(): "Every answer is a thought and one action, then stop:\nThought: what you know and what you do next\nAction: NAME[{{\"argument\": \"value\"}}]\nThe next message has its result, after `[tool]`; never write a result yourself. Text without an action is refused, also as the last answer. To end:\nAction: Finish[your answer]",
        "每次回答写一段思考和一个动作，然后停下：\nThought: 已经知道什么，接下来做什么\nAction: NAME[{{\"argument\": \"value\"}}]\n下一条消息里 `[tool]` 之后就是它的结果；绝不要自己编写结果。没有动作的文字会被拒绝，最后一次回答也一样。要结束：\nAction: Finish[你的回答]";
    tools_in_text(): "Tools (`?`: may be left out):", "工具（`?`：可以省略）：";

    // What was wrong with an action.
    cut_off(): "Your answer was cut off at its limit of tokens. Go on in smaller steps.",
        "你的回答达到 token 上限，被截断了。请分成更小的步骤继续。";
    cut_off_not_run(): "Your answer was cut off at its limit of tokens and was not run.",
        "你的回答达到 token 上限，被截断了，没有执行。";
    neither_text_nor_call(): "Your answer had neither text nor a tool call.", "你的回答既没有文字，也没有工具调用。";
    call_not_run(name, why, arguments): "Your call of `{name}` was not run: {why}. Its arguments as they came: {arguments}",
        "你对 `{name}` 的调用没有执行：{why}。收到的参数：{arguments}";
    not_run(why): "Not run: {why}.", "没有执行：{why}。";
    not_one_object(error): "the answer is not one JSON object ({error}). Send {{\"thought\": …, \"tool\": …, \"arguments\": …}}; to end, use the tool Finish",
        "回答不是一个 JSON 对象（{error}）。请发送 {{\"thought\": …, \"tool\": …, \"arguments\": …}}；要结束，就用工具 `Finish`";
    no_tool(): "the object has no `tool`", "对象中没有 `tool`";
    arguments_not_object(): "`arguments` is not an object", "`arguments` 不是对象";
    finish_needs_answer(): "`Finish` needs `arguments.answer`, a string", "`Finish` 需要字符串 `arguments.answer`";
    action_shape(): "write `Action: Tool[{{\"argument\": …}}]` or `Action: Finish[…]`",
        "请写 `Action: Tool[{{\"argument\": …}}]` 或 `Action: Finish[…]`";
    no_action(shape): "there is no action; {shape}. To end the turn, write `Action: Finish[your answer]`",
        "没有动作；{shape}。要结束，请写 `Action: Finish[你的回答]`";
    action_without_bracket(shape): "the action has no `[`; {shape}", "动作中没有 `[`；{shape}";
    no_name_of_a_tool(name, shape): "`{name}` is no name of a tool; {shape}", "`{name}` 不是工具的名称；{shape}";
    finish_not_closed(shape): "`Finish` has no closing `]`; {shape}", "`Finish` 缺少右方括号 `]`；{shape}";
    arguments_not_json_object(shape): "the arguments are not a JSON object; {shape}", "参数不是 JSON 对象；{shape}";
    arguments_not_json(error, shape): "the arguments are not JSON: {error}; {shape}", "参数不是有效的 JSON：{error}；{shape}";
    action_not_closed(shape): "behind the arguments there must be a `]`; {shape}", "参数之后必须是 `]`；{shape}";

    // What happened to a call.
    call_unknown(): "Baton was interrupted while this ran: it may have happened, in part or not at all. Look at what is there before you do it again.",
        "执行期间 Baton 被中断：这个操作可能已完成、只完成一部分，或根本没有发生。先看看现状，再决定是否重做。";
    tool_broke_down(): "the tool broke down", "工具出错，没有完成";
}
