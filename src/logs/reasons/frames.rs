//! What the frames of a traceback tell of an exception whose words tell little.
#![forbid(unsafe_code)]

use super::{Kind, Reason, of};
use crate::report::SignatureFinding;
use crate::traceback::{Place, Traceback};

const DATA: Reason = Reason {
    words: "IndexError|KeyError|ValueError|TypeError|UnicodeDecodeError|JSONDecodeError",
    cause: "the data: a record or a column that the dataset's code reads is missing, malformed or empty",
    next: "print the record that the innermost frame reads, and its fields; compare them with what the dataset's code expects",
};
const CHECKPOINT: Reason = Reason {
    words: "KeyError|ValueError|RuntimeError|AssertionError|AttributeError|IndexError",
    cause: "the checkpoint and the model's code do not fit: one has a tensor, or a size of one, that the other lacks",
    next: "compare the checkpoint's config.json (architecture, quantization) with the class that loads it, and the program's release with the one that the model asks for",
};
const ENVIRONMENT: Reason = Reason {
    words: "KeyError",
    cause: "a variable that the launcher should set is missing",
    next: "compare `env` of every rank: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
};
const CONFIGURATION: Reason = Reason {
    words: "KeyError|AttributeError",
    cause: "the configuration lacks a key that the program reads",
    next: "look for the name in the line in the configuration that this run reads, and in the example of the program's release",
};
const ZERO: Reason = Reason {
    words: "ZeroDivisionError",
    cause: "a count is 0, as the log prints before the division: {zero}",
    next: "look at what the count is made of: mostly the dataset is smaller than one batch of all ranks",
};

/// Where the program's own code raised or called what raised.
pub(super) const OWN_CODE: &str =
    "the program's own code is innermost at {word} in the traceback: `{code}`";

/// All reasons of this file.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    [&DATA, &CHECKPOINT, &ENVIRONMENT, &CONFIGURATION, &ZERO].into_iter()
}

/// Gives an exception the cause of the part of the program in which it was raised, unless its words tell more, and
/// the place in the program's own code.
pub(crate) fn explain_traceback(finding: &mut SignatureFinding, traceback: &Traceback) {
    let told = of(&finding.sample);
    let divides = finding.sample.contains(ZERO.words);
    let is_told = !matches!(
        told,
        None | Some((_, Kind::Other | Kind::Broad | Kind::Vague))
    ) && !divides;
    if is_told && !matches!(told, Some((_, Kind::Exact))) {
        return;
    }
    if let Some(zero) = traceback.zero().filter(|_| divides) {
        finding.causes = vec![ZERO.cause.replace("{zero}", &zero)];
        finding.next_step = Some(ZERO.next.to_owned());
    } else if let Some(reason) = traceback.place().map(of_place).filter(|_| !is_told) {
        let is_of = |class: &str| finding.sample.contains(class);
        if reason.words.split('|').any(is_of) {
            finding.causes = vec![reason.cause.to_owned()];
            finding.next_step = Some(reason.next.to_owned());
        }
    }
    let own = traceback.own().filter(|(_, code)| !code.is_empty());
    if let Some(((place, code), next)) = own.zip(finding.next_step.as_mut()) {
        let text = OWN_CODE.replace("{word}", &place).replace("{code}", &code);
        *next = format!("{next}; {text}");
    }
}

fn of_place(place: Place) -> &'static Reason {
    match place {
        Place::Data => &DATA,
        Place::Checkpoint => &CHECKPOINT,
        Place::Environment => &ENVIRONMENT,
        Place::Configuration => &CONFIGURATION,
    }
}
