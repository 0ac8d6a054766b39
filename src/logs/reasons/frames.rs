//! What the frames of a traceback tell of an exception whose words tell little.
#![forbid(unsafe_code)]

use super::{Kind, Reason, of};
use crate::report::SignatureFinding;
use crate::traceback::{Place, Traceback};
use std::slice;

/// What the class of an exception tells where the code of a dataset raised it.
const DATA: [Reason; 4] = [
    Reason {
        words: "KeyError",
        cause: "the dataset's code looks up a key or a column that its data do not have: it is missing or has another name",
        next: "print the record that the innermost frame reads, and its fields; compare them with what the dataset's code expects",
    },
    Reason {
        words: "IndexError",
        cause: "an index in the dataset's code is past the end of a list: a label, a class or a record does not fit the list that it is looked up in",
        next: "print the index and the length of the list at the innermost frame; compare the classes of the data with those of the model",
    },
    Reason {
        words: "UnicodeDecodeError|JSONDecodeError",
        cause: "a file of the dataset is not of the format that the code reads, or is damaged",
        next: "print the name of the file before it is read; compare its size and its first bytes with those of another one",
    },
    Reason {
        words: "ValueError|TypeError",
        cause: "the dataset's code got a value of another kind or form than it expects",
        next: "print what the innermost frame reads; compare it with what the dataset's code expects",
    },
];
const CACHE: Reason = Reason {
    words: "KeyError|IndexError|ValueError|TypeError|AttributeError|UnpicklingError|EOFError",
    cause: "what the dataset's code reads from its cache has another form than it expects: another release of the code wrote the cache, or its writing was interrupted",
    next: "remove the cache that the lines above name, so that the program makes it anew",
};
const OBJECT: Reason = Reason {
    words: "UnpicklingError|EOFError|ValueError|RuntimeError|AttributeError",
    cause: "the bytes that this rank received as another rank's object are no pickled object: the ranks call different collectives, or in another order, or the sender ended while it sent",
    next: "TORCH_DISTRIBUTED_DEBUG=DETAIL compares the collectives of the ranks; read the log of the rank that sends",
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

const WAS_THERE: Reason = Reason {
    words: "does not exist|No such file|not found",
    cause: "it was there before, as the log says: another process or rank has removed or renamed it since",
    next: "look at what removes or renames it, such as the rank that makes a checkpoint final: that must wait for all ranks that write there",
};

/// Where the program's own code raised or called what raised.
pub(super) const OWN_CODE: &str =
    "the program's own code is innermost at {word} in the traceback: `{code}`";

/// All reasons of this file.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    let others = [
        &CACHE,
        &OBJECT,
        &CHECKPOINT,
        &ENVIRONMENT,
        &CONFIGURATION,
        &ZERO,
        &WAS_THERE,
    ];
    DATA.iter().chain(others)
}

/// Gives an exception the cause of the part of the program in which it was raised, unless its words tell more, and
/// the place in the program's own code.
pub(crate) fn explain_traceback(finding: &mut SignatureFinding, traceback: &Traceback) {
    let lacks = |word: &str| finding.sample.contains(word);
    if traceback.was_written() && WAS_THERE.words.split('|').any(lacks) {
        finding.causes.insert(0, WAS_THERE.cause.to_owned());
        finding.next_step = Some(WAS_THERE.next.to_owned());
    }
    let told = of(&finding.sample);
    let divides = finding.sample.contains(ZERO.words);
    let place = traceback.place();
    // What was received is no file, whatever the words of the exception tell of files.
    let is_told = !matches!(
        told,
        None | Some((_, Kind::Other | Kind::Broad | Kind::Vague))
    ) && !divides
        && place != Some(Place::Object);
    if is_told && !matches!(told, Some((_, Kind::Exact))) {
        return;
    }
    // What the dataset's code says itself is more than that its data are not as expected.
    let tells =
        |place| place == Place::Data && traceback.is_raised_by_hand() && says_much(&finding.sample);
    if let Some(zero) = traceback.zero().filter(|_| divides) {
        finding.causes = vec![ZERO.cause.replace("{zero}", &zero)];
        finding.next_step = Some(ZERO.next.to_owned());
    } else if let Some(place) = place.filter(|place| !is_told && !tells(*place)) {
        let is_of = |class: &str| finding.sample.contains(class);
        let mut reasons = of_place(place).iter();
        // A number or a text is no part of a configuration.
        let is_plain = place == Place::Configuration
            && PLAIN_VALUES
                .iter()
                .any(|value| finding.sample.contains(value));
        if let Some(reason) = reasons.find(|one| one.words.split('|').any(is_of))
            && !is_plain
        {
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

/// Values whose attributes no configuration has, as exceptions name them.
const PLAIN_VALUES: [&str; 7] = [
    "'int' object",
    "'float' object",
    "'str' object",
    "'bool' object",
    "'list' object",
    "'tuple' object",
    "'Tensor' object",
];
/// Fewest words of a message that tells what is wrong.
const WORDS_MIN: usize = 4;

fn says_much(line: &str) -> bool {
    let message = line
        .split_once("Error: ")
        .map_or("", |(_, message)| message);
    message.split_whitespace().count() >= WORDS_MIN
}

fn of_place(place: Place) -> &'static [Reason] {
    match place {
        Place::Data => &DATA,
        Place::Cache => slice::from_ref(&CACHE),
        Place::Object => slice::from_ref(&OBJECT),
        Place::Checkpoint => slice::from_ref(&CHECKPOINT),
        Place::Environment => slice::from_ref(&ENVIRONMENT),
        Place::Configuration => slice::from_ref(&CONFIGURATION),
    }
}
