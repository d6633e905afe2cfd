//! Profiles that somebody wrote wrong: said before anything begins, with the nearest right name.

use baton_testkit::{Model, Place, answer, text};

fn said_of(config: &str) -> String {
    let place = Place::of_agent(crate::BATON, Model::start(vec![text("never")]));
    place.write("home/.config/baton/baton.toml", config);
    let said = place.expect(&["exec", "-p", "Go."], 2);
    assert_eq!(place.model().requests().len(), 0, "nothing was begun");
    said
}

#[test]
fn what_is_wrong_in_a_profile_is_said_with_the_nearest_right_name() {
    let cases = [
        ("strategy = \"archiv\"", "archive"),
        ("strategie = \"archive\"", "strategy"),
        ("compact_att = 20000", "compact_at"),
        ("keep_recents = 3", "keep_recent"),
        ("protocol = \"nativ\"", "native"),
        ("summary_key = [\"a\"]", "summary_keys"),
    ];
    for (line, right) in cases {
        let said = said_of(&format!("[profiles.chat]\n{line}\n"));
        assert!(said.contains(&format!("did you mean `{right}`?")), "{line}: {said}");
        assert!(said.contains("baton.toml"), "the file is named: {said}");
    }
}

#[test]
fn figures_that_cannot_work_are_refused() {
    let cases = [
        ("compact_at = 0", "profiles.chat.compact_at: 0 is not between"),
        ("compact_at = 100", "profiles.chat.compact_at: 100 is not between"),
        ("context_window = 1", "profiles.chat.context_window: 1 is not between"),
        ("keep_recent = 0", "profiles.chat.keep_recent: 0 is not between"),
        ("steps = 0", "profiles.chat.steps: 0 is not between"),
        ("context_window = 50000\ncompact_at = 60000", "profiles.chat.compact_at"),
    ];
    for (lines, expected) in cases {
        let said = said_of(&format!("[profiles.chat]\n{lines}\n"));
        assert!(said.contains(expected), "{lines}: {said}");
    }
    for line in ["compact_at = -1", "keep_recent = \"three\"", "summary_keys = \"one\""] {
        let said = said_of(&format!("[profiles.chat]\n{line}\n"));
        let key = line.split(' ').next().unwrap();
        assert!(said.contains(key), "{line}: {said}");
    }
}

/// A profile that nobody is given does nothing: it is a slip of the pen.
#[test]
fn the_profiles_name_is_checked_where_it_is_used() {
    let place = Place::of_agent(crate::BATON, Model::start(vec![text("never")]));
    answer(place.plain(&["init"])).expect(&["init"], 0);
    place.write("home/.config/baton/baton.toml", "[agents.MAIN]\nprofile = \"exeucte\"\n");
    let said = place.expect(&["run", "Go."], 2);
    assert!(said.contains("there is no profile `exeucte`"), "{said}");
    assert!(said.contains("`execute`"), "the nearest name: {said}");
}

#[test]
fn the_model_of_the_profile_is_called_unless_a_flag_names_another() {
    let place = Place::of_agent(crate::BATON, Model::start(vec![text("Here.")]));
    place.write("home/.config/baton/baton.toml", "[profiles.chat]\nmodel = \"from-profile\"\n");
    place.expect(&["exec", "-p", "Go."], 0);
    assert_eq!(place.model().requests()[0]["model"], "scripted");
    let mut command = place.plain(&["exec", "-p", "Go.", "--provider", "openai-chat"]);
    command.args(["--base-url", &place.model().url]);
    answer(command).expect(&["exec"], 0);
    assert_eq!(place.model().requests()[1]["model"], "from-profile");
}
