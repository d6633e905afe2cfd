//! Answers that did not settle their stage, of MAIN or of an agent: the conversation that a correction
//! continues.

use serde::{Deserialize, Serialize};

use super::Phase;
use crate::messages::Language;
use crate::prompt::{Correction, ReadFile};

/// The number of times that MAIN may ask for files before it decides.
pub const MOST_READS: u32 = 2;

/// Characters of a refused answer that are shown again; the whole is in the archive or the journal.
const REFUSED_CHARACTERS: usize = 40_000;

/// An answer that did not settle its stage: it was refused, or it asked for files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// Empty where the stage was refused for what it did, whatever it answered.
    pub answer: String,
    pub problem: String,
    /// The files that it asked for, as they were shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ReadFile>,
}

impl RefusedAnswer {
    /// `path`: where the whole answer is.
    pub(super) fn new(
        answer: &str,
        problem: &str,
        path: &str,
        language: Language,
    ) -> RefusedAnswer {
        let kept = crate::text::cut(answer, REFUSED_CHARACTERS);
        let answer = match answer.chars().count() {
            count if count <= REFUSED_CHARACTERS => answer.to_owned(),
            count => {
                format!("{kept}\n{}", language.cut_answer(REFUSED_CHARACTERS, count, path))
            }
        };
        RefusedAnswer { answer, problem: problem.to_owned(), files: Vec::new() }
    }

    /// The next message of the conversation. `None`: only its number counts.
    pub fn correction(
        &self,
        number: u32,
        before: &[RefusedAnswer],
        order: &str,
    ) -> Option<Correction> {
        // Of an older read only the number counts.
        if !self.files.is_empty() && !self.answer.is_empty() {
            let left = MOST_READS.saturating_sub(reads_of(before) + 1);
            let files = crate::prompt::files_read(&self.files, left);
            return Some(Correction::files_read(number, &self.answer, &files));
        }
        let is_shown = !self.problem.is_empty();
        is_shown.then(|| Correction::new(number, &self.answer, order, &self.problem))
    }
}

/// The number of times that files were read for a decision.
pub(super) fn reads_of(refused: &[RefusedAnswer]) -> u32 {
    u32::try_from(refused.iter().filter(|own| !own.files.is_empty()).count()).unwrap_or(u32::MAX)
}

/// The refused answers before the stage that this phase begins.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase begins a stage")]
pub(super) fn refused_of(phase: &Phase) -> &[RefusedAnswer] {
    match phase {
        Phase::Decide { refused, .. } => refused,
        Phase::Work { job } => &job.refused,
        _ => &[],
    }
}

/// One more refusal. Only the last ones are shown again; of those before only their number counts.
pub(super) fn add_refused(all: &mut Vec<RefusedAnswer>, new: RefusedAnswer) {
    const SHOWN: usize = 4;
    all.push(new);
    let older = all.len().saturating_sub(SHOWN);
    for refused in &mut all[..older] {
        let files = refused.files.iter().map(|file| ReadFile::unread(&file.path, ""));
        *refused = RefusedAnswer { files: files.collect(), ..RefusedAnswer::default() };
    }
}
