//! What failures are put down to: one question a failed sample, then one about all of them.

use baton_core::handoff::make::ProblemsReport;
use baton_core::scenario::count::{self, Tally, UNATTRIBUTED};
use baton_core::scenario::judge::{self, Figures};
use baton_core::scenario::result::{Attribution, Evaluation, Trace, written};

use super::ask::{Failed, Shared, taken};
use super::outputs::{Kind, Outputs};
use super::read::Scenario;
use super::writer::{self, Finished};
use super::{Ask, Error, Phase, Progress};
use crate::model::{Client, Tags};

/// Attributes every failure that is not yet.
pub(super) fn all(
    ask: &Ask<'_>,
    scenario: &Scenario,
    outputs: &Outputs,
    shared: &Shared<'_>,
    tally: &mut Tally,
) -> Result<(), Error> {
    let total = tally.failed();
    let mut open: Vec<String> = Vec::new();
    let ids: Vec<String> = tally.failed_ids().map(str::to_owned).collect();
    let mut done = 0;
    for id in ids {
        match outputs.read::<Attribution>(&scenario.root, Kind::Attribution, &id) {
            Some(own) => {
                tally.attribute(&own);
                done += 1;
            }
            None => open.push(id),
        }
    }
    let (failed, errors, before) = (tally.failed(), tally.errors(), done);
    let tell = |done: u64| {
        let (phase, iteration) = (Phase::Attribution, outputs.head.iteration);
        (ask.progress)(&Progress { phase, iteration, done, total, failed, errors, before });
    };
    if !open.is_empty() {
        tell(done);
    }
    writer::side_by_side(
        ask,
        shared,
        &open,
        || ask.judge.client.apart().map_err(Error::Sandbox),
        |judge, id| one(ask, scenario, outputs, shared, judge, id),
        |own: Attribution| {
            tally.attribute(&own);
            done += 1;
            tell(done);
        },
    )?;
    match (done == total, shared.stopped()) {
        (false, Some((stop, why))) => {
            let done = format!("{done} of {total} failures are attributed");
            Err(Error::Stopped { stop, why, done })
        }
        _ => Ok(()),
    }
}

fn unattributed(id: &str, cause: String) -> Attribution {
    Attribution {
        sample_id: id.to_owned(),
        layer: None,
        failure_type: UNATTRIBUTED.to_owned(),
        cause,
        evidence: String::new(),
        suggestion: String::new(),
        usage: None,
    }
}

/// `None`: somebody stopped it.
fn one(
    ask: &Ask<'_>,
    scenario: &Scenario,
    outputs: &Outputs,
    shared: &Shared<'_>,
    judge: &Client,
    id: &str,
) -> Option<Finished<Attribution>> {
    let finished = |own: Attribution, is_outage| Finished {
        first: Vec::new(),
        last: (outputs.file(Kind::Attribution, id), written(&own)),
        is_outage,
        what: own,
    };
    if !ask.attribution {
        let cause = "nobody was asked: attribution is switched off".to_owned();
        return (!shared.is_stopped()).then(|| finished(unattributed(id, cause), false));
    }
    let root = &scenario.root;
    let material = (
        outputs.text(root, Kind::Sample, id),
        outputs.read::<Trace>(root, Kind::Trace, id),
        outputs.read::<Evaluation>(root, Kind::Evaluation, id),
    );
    let (Some(sample), Some(trace), Some(evaluation)) = material else {
        let cause = "nobody could be asked: the sample's files cannot be read".to_owned();
        return Some(finished(unattributed(id, cause), false));
    };
    let question = judge::attribution(&scenario.rules, &sample, &trace, &evaluation);
    let tags = tags(scenario, outputs, "attribution");
    let read = |answer: &str| judge::attributed(id, answer);
    match shared.judged(judge, ask.judge, &question, &tags, read) {
        Ok((own, usage)) => Some(finished(Attribution { usage: taken(usage), ..own }, false)),
        Err(Failed::Stopped) => None,
        Err(Failed::Model { why, is_outage, .. }) => {
            let cause = format!("the model could not be asked: {why}");
            Some(finished(unattributed(id, cause), is_outage))
        }
        Err(Failed::Wrong(why)) => {
            let cause = format!("the model's answer could not be used: {why}");
            Some(finished(unattributed(id, cause), false))
        }
    }
}

fn tags(scenario: &Scenario, outputs: &Outputs, stage: &str) -> Tags {
    Tags {
        run: scenario.name().to_owned(),
        stage: stage.to_owned(),
        iteration: outputs.head.iteration,
        attempt: 1,
    }
}

/// The problems behind the failures: by a model where one is asked, otherwise a problem a group.
pub(super) fn report(
    ask: &Ask<'_>,
    scenario: &Scenario,
    outputs: &Outputs,
    shared: &Shared<'_>,
    tally: &Tally,
) -> Result<ProblemsReport, Error> {
    let groups = tally.groups();
    let earlier = outputs.earlier(scenario)?;
    let iteration = outputs.head.iteration;
    let problems = if groups.is_empty() {
        Vec::new()
    } else if ask.attribution {
        let (phase, failed, errors) = (Phase::Report, tally.failed(), tally.errors());
        let progress = Progress { phase, iteration, done: 0, total: 1, failed, errors, before: 0 };
        (ask.progress)(&progress);
        let figures = Figures {
            iteration,
            total: tally.total,
            failed,
            rules: &scenario.rules,
            earlier: &earlier,
        };
        let question = judge::report(&figures, &groups);
        let tags = tags(scenario, outputs, "report");
        let read = |answer: &str| judge::reported(answer, &groups);
        let client = &ask.judge.client;
        match shared.judged(client, ask.judge, &question, &tags, read) {
            Ok((own, _)) => count::expanded(own, &groups),
            Err(Failed::Stopped) => {
                let (stop, why) = shared
                    .stopped()
                    .unwrap_or_else(|| (super::Stop::Interrupted, "interrupted".to_owned()));
                let done = "only the problems report is missing".to_owned();
                return Err(Error::Stopped { stop, why, done });
            }
            Err(Failed::Model { why, .. }) => return Err(Error::Model(why)),
            Err(Failed::Wrong(why)) => return Err(Error::Protocol(why)),
        }
    } else {
        count::by_code(&groups, tally.total, &earlier)
    };
    Ok(tally.report(iteration, ask.now, problems))
}
