//! Parses `TCPXSOFT_FAULT` into a plan. The parent module documents the grammar.
#![forbid(unsafe_code)]

use super::{Call, Fault, Kind, Plan, Side};
use std::fmt;

const CALLS: [(&str, Call); 17] = [
    ("init", Call::Init),
    ("devices", Call::Devices),
    ("getProperties", Call::GetProperties),
    ("listen", Call::Listen),
    ("connect", Call::Connect),
    ("accept", Call::Accept),
    ("regMr", Call::RegMr),
    ("deregMr", Call::DeregMr),
    ("isend", Call::Isend),
    ("irecv", Call::Irecv),
    ("iflush", Call::Iflush),
    ("test", Call::Test),
    ("closeSend", Call::CloseSend),
    ("closeRecv", Call::CloseRecv),
    ("closeListen", Call::CloseListen),
    ("getDeviceMr", Call::GetDeviceMr),
    ("irecvConsumed", Call::IrecvConsumed),
];

/// Default duration of `spin`.
const SPIN_MS: u64 = 60_000;

/// A text that does not match the grammar: the item, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadFault {
    /// The item as written.
    pub item: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "fault `{}`: {}", self.item, self.why)
    }
}

impl Plan {
    /// Parses a text. Empty text is a plan without faults.
    pub(crate) fn parse(text: &str) -> Result<Self, BadFault> {
        let mut plan = Self::default();
        for item in text
            .split(';')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let failed = |why: String| BadFault {
                item: item.to_owned(),
                why,
            };
            match item.strip_prefix("seed=") {
                Some(seed) => plan.seed = number("seed", seed).map_err(failed)?,
                None => plan.faults.push(Fault::parse(item).map_err(failed)?),
            }
        }
        Ok(plan)
    }
}

impl Fault {
    fn parse(item: &str) -> Result<Self, String> {
        let (kind, rest) = item.split_once(':').unwrap_or((item, ""));
        let mut keys = Keys::parse(rest)?;
        let (side, comm) = (keys.side()?, keys.optional("comm")?);
        let kind = match kind.trim() {
            "stop" => Kind::Stop {
                after: keys.required("after")?,
            },
            "drop-ctrl" => Kind::DropCtrl {
                nth: keys.counted("nth")?,
            },
            "delay-ctrl" => Kind::DelayCtrl {
                nth: keys.counted("nth")?,
                ms: keys.required("ms")?,
            },
            "close" => Kind::Close {
                after: keys.required("after")?,
                socket: keys.optional("socket")?.unwrap_or(0),
            },
            "rc" => Kind::Rc {
                call: keys.call()?,
                value: keys.code()?,
                nth: keys.optional("nth")?.unwrap_or(1),
                times: keys.optional("times")?.unwrap_or(1),
            },
            "exit" => Kind::Exit {
                chunk: keys.counted("chunk")?,
            },
            "spin" => Kind::Spin {
                call: keys.call()?,
                nth: keys.optional("nth")?.unwrap_or(1),
                ms: keys.optional("ms")?.unwrap_or(SPIN_MS),
            },
            "hang" => Kind::Hang,
            "refuse" => Kind::Refuse {
                times: keys.optional("times")?.unwrap_or(0),
            },
            "corrupt" => Kind::Corrupt {
                chunk: keys.counted("chunk")?,
                byte: keys.optional("byte")?,
            },
            "starve" => Kind::Starve {
                socket: keys.required("socket")?,
                after: keys.optional("after")?.unwrap_or(0),
            },
            "lose" => Kind::Lose {
                after: keys.optional("after")?.unwrap_or(0),
                percent: keys.percent()?.unwrap_or(100),
            },
            other => return Err(format!("unknown kind `{other}`")),
        };
        keys.finish()?;
        Ok(Self { kind, side, comm })
    }
}

/// The `key=value` pairs of one item. Reading a key removes it.
struct Keys<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Keys<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            part.split_once('=')
                .ok_or_else(|| format!("`{part}` is not key=value"))
        });
        let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_, _>>()?;
        match pairs
            .iter()
            .enumerate()
            .find(|(at, (key, _))| pairs[..*at].iter().any(|(other, _)| other == key))
        {
            Some((_, (key, _))) => Err(format!("`{key}` is given twice")),
            None => Ok(Self(pairs)),
        }
    }

    fn text(&mut self, key: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(name, _)| *name == key)?;
        Some(self.0.remove(at).1)
    }

    fn optional(&mut self, key: &str) -> Result<Option<u64>, String> {
        self.text(key).map(|value| number(key, value)).transpose()
    }

    fn required(&mut self, key: &str) -> Result<u64, String> {
        self.optional(key)?
            .ok_or_else(|| format!("`{key}` is missing"))
    }

    fn counted(&mut self, key: &str) -> Result<u64, String> {
        match self.required(key)? {
            0 => Err(format!("`{key}` counts from 1")),
            value => Ok(value),
        }
    }

    fn side(&mut self) -> Result<Option<Side>, String> {
        match self.text("side") {
            None => Ok(None),
            Some("send") => Ok(Some(Side::Send)),
            Some("recv") => Ok(Some(Side::Recv)),
            Some(other) => Err(format!("`side` is send or recv, not `{other}`")),
        }
    }

    fn call(&mut self) -> Result<Call, String> {
        let name = self.text("call").ok_or("`call` is missing")?;
        let found = CALLS.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, call)| *call)
            .ok_or_else(|| format!("there is no call `{name}`"))
    }

    fn code(&mut self) -> Result<i32, String> {
        let value = self.required("value")?;
        i32::try_from(value).map_err(|_| format!("`value` {value} is no result code"))
    }

    fn percent(&mut self) -> Result<Option<u32>, String> {
        let Some(value) = self.optional("percent")? else {
            return Ok(None);
        };
        let percent = u32::try_from(value)
            .ok()
            .filter(|percent| (1..=100).contains(percent));
        percent
            .map(Some)
            .ok_or_else(|| format!("`percent` {value} is not 1 to 100"))
    }

    fn finish(self) -> Result<(), String> {
        self.0
            .first()
            .map_or(Ok(()), |(key, _)| Err(format!("unknown key `{key}`")))
    }
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value
        .trim()
        .parse()
        .map_err(|_| format!("`{key}` is a whole number, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_fault_is_reported_with_item_and_reason() {
        let check =
            |text: &str, why: &str| assert_eq!(Plan::parse(text).unwrap_err().why, why, "{text}");
        check("stap:after=1", "unknown kind `stap`");
        check("stop", "`after` is missing");
        check("stop:after=1,nth=2", "unknown key `nth`");
        check("stop:after=1,after=2", "`after` is given twice");
        check("stop:after=-1", "`after` is a whole number, not `-1`");
        check("exit:chunk=0", "`chunk` counts from 1");
        check(
            "rc:call=irecvconsumed,value=1",
            "there is no call `irecvconsumed`",
        );
        check(
            "rc:call=test,value=4294967296",
            "`value` 4294967296 is no result code",
        );
        check("hang:side=both", "`side` is send or recv, not `both`");
        check("stop:after", "`after` is not key=value");
        check("lose:percent=101", "`percent` 101 is not 1 to 100");
        check("seed=x", "`seed` is a whole number, not `x`");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[a-z:=,;0-9 -]{0,60}") {
            let _ = Plan::parse(&text);
        }
    }
}
