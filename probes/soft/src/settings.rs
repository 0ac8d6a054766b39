//! The settings, read from the environment once at `init`.
//!
//! Integers are the real plugin's `NCCL_*` variables, parsed as it does: with `strtoll` in base
//! 0, so hexadecimal works, a unit suffix is silently dropped, and other text is 0. A value out
//! of range restores the built-in default and logs that. Some have a declared default of -2,
//! "keep the built-in one", which logs the same line on every normal start. Strings are read
//! from `TCPXSOFT_X`, then `NCCL_GPUDIRECTTCPX_X`. `init` logs the settings in the real plugin's
//! form.
//!
//! | ours | values, the default first |
//! |---|---|
//! | `TCPXSOFT_IO` | `inline`, `helper`, `auto`: who moves bytes; see `helper` |
//! | `TCPXSOFT_WAITS` | `none`, `real`: 100 ms per socket and the flow-steering wait |
//! | `TCPXSOFT_CONNECT` | `stepwise`, `blocking`: connect waits up to 60 s for the connection |
//! | `TCPXSOFT_CUDA` | `off`, `standin`: device pointers over ordinary memory, `device`: a GPU's |
//! | `TCPXSOFT_POOL_BYTES` | 67108864: the page pool of device receives |
//! | `TCPXSOFT_CHECK` | `none`, `unpack`: irecvConsumed compares a receive's pages with its destination |
//! | `TCPXSOFT_SEED` | 0: shuffles the pool |
//! | `TCPXSOFT_CONGESTION` | the system's: TCP congestion control |
//! | `TCPXSOFT_SEND_BUFFER` | `kernel`, `auto`: small between two ends of a node of few CPUs; see `Plugin::bounds_send_buffer` |
//! | `TCPXSOFT_FAULT` | nothing: see `fault` |
//! | `TCPXSOFT_SOCKET_IFNAME`, `_SOCKET_FAMILY`, `_CTRL_DEV` | as the real plugin's |
//!
//! Unlike the real plugin, `init` refuses an invalid value of a `TCPXSOFT_*` variable instead of
//! ignoring it.
//!
//! Not here: reading the process's environment; the caller passes a lookup function.
#![forbid(unsafe_code)]

use crate::fault::Plan;
use crate::integers::*;
use crate::stall::Patience;
use std::ffi::c_ulong;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tcpx_abi::subsystem;

/// The flavour of this process's plugin; a shared object has one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Like GPUDirect-TCPX: sixteen slots, `test` in posting order, receives that are unpacked.
    Tcpx,
    /// A host plugin without these restrictions.
    Plain,
}

static IS_PLAIN: AtomicBool = AtomicBool::new(false);

impl Flavour {
    /// Sets the flavour that log lines name.
    pub(crate) fn settle(self) {
        IS_PLAIN.store(self == Self::Plain, Relaxed);
    }
}

/// The prefix of log lines, which is `NET/GPUDirectTCPX` in the real plugin.
#[derive(Debug)]
pub(crate) struct Product;

/// The value of [`Product`].
pub(crate) const PRODUCT: Product = Product;

impl Product {
    /// The part after the slash.
    pub(crate) fn name(&self) -> &'static str {
        if IS_PLAIN.load(Relaxed) {
            "PlainSoft"
        } else {
            "TCPXSoft"
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "NET/{}", self.name())
    }
}

/// Who moves bytes on the data sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Io {
    /// `test` itself.
    Inline,
    /// Helper threads of the comm.
    Helper,
    /// One of the two, chosen per comm at its first task chunk.
    Auto,
}

/// When `connect` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connect {
    /// At once, without a comm until the connection stands: "call again".
    Stepwise,
    /// With the comm, for programs that call `connect` once.
    Blocking,
}

/// The address family that an interface must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// How `NCCL_PTR_CUDA` memory is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cuda {
    /// It is refused.
    Off,
    /// It is host memory.
    StandIn,
    /// It is GPU memory, accessed through the driver.
    Device,
}

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The plugin's flavour.
    pub flavour: Flavour,
    /// `NCCL_GPUDIRECTTCPX_SOCKET_ENABLE`
    pub enabled: bool,
    /// Bytes of one task chunk; 0 moves nothing, as in 3.1.9.
    pub chunk: usize,
    /// Whether `chunk` was not set, so that a task chunk may be longer.
    pub chunk_is_default: bool,
    /// Data sockets per helper thread.
    pub sockets_per_thread: usize,
    /// Helper threads of a comm; without helpers they only multiply the sockets.
    pub threads: usize,
    /// Messages up to this many bytes are sent on the control socket.
    pub inline_threshold: usize,
    /// Attempts per socket while the acceptor answers PENDING.
    pub attempts: u32,
    /// Senders wait for the receiver's counter.
    pub recv_sync: bool,
    /// Intervals of slowness lines.
    pub patience: Patience,
    /// Whether slowness of the control socket is logged.
    pub report_ctrl: bool,
    /// Whether slowness of data sockets is logged.
    pub report_data: bool,
    /// Wait of accept at its end, if `real_waits`.
    pub steering_wait: Duration,
    /// Whether the real plugin's fixed waits are made.
    pub real_waits: bool,
    /// Data interfaces, in NCCL's syntax.
    pub interfaces: Option<String>,
    /// The address family; any if `None`.
    pub family: Option<Family>,
    /// The interface of control sockets.
    pub ctrl_interface: Option<String>,
    /// TCP congestion control; the system's default if `None`.
    pub congestion: Option<String>,
    /// What moves the bytes on data sockets.
    pub io: Io,
    /// Whether send buffers may be smaller than the kernel's.
    pub bounds_send_buffer: bool,
    /// Whether `connect` waits for the connection.
    pub connect: Connect,
    /// How `NCCL_PTR_CUDA` memory is treated.
    pub cuda: Cuda,
    /// Whether `irecvConsumed` compares pages with destinations.
    pub check_unpack: bool,
    /// Bytes of the page pool.
    pub pool_bytes: usize,
    /// Seed of the order of pages.
    pub seed: u64,
    /// Injected faults.
    pub fault: Plan,
}

/// A line for the log at `init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// Subsystem bits.
    pub flags: c_ulong,
    /// The text.
    pub text: String,
}

/// A `TCPXSOFT_*` variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadSetting {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// The valid values.
    pub expected: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} is `{}`, expected {}",
            self.variable, self.value, self.expected
        )
    }
}

/// Looks a variable up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables of the real plugin that have no effect without its hardware. `init` logs a line if
/// one of them is set.
const WITHOUT_EFFECT: [&str; 8] = [
    "NCCL_MIN_ZCOPY_SIZE",
    "NCCL_THREAD_SPIN_ENABLE",
    "NCCL_USE_DMA_BUF",
    "NCCL_GPUDIRECTTCPX_FORCE_ACK",
    "NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP",
    "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX",
    "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
    "NCCL_GPUDIRECTTCPX_RX_BINDINGS",
];

/// Default task chunk of the plain flavour: NCCL's 512 KiB messages use four sockets at once.
const PLAIN_CHUNK: &str = "131072";

/// Largest pool, because scatter entries have 32-bit offsets.
const POOL_MOST: usize = u32::MAX as usize & !0xfff;
const POOL_DEFAULT: usize = 64 << 20;

impl Settings {
    /// Reads all settings. The notes are logged even if a setting is invalid.
    pub(crate) fn read(lookup: Lookup<'_>) -> (Result<Self, BadSetting>, Vec<Note>) {
        let mut reader = Reader {
            lookup,
            notes: Vec::new(),
        };
        let settings = reader.settings();
        (settings, reader.notes)
    }

    /// As `read`, for the plain flavour, which also reads NCCL's variables for interfaces and has
    /// a default task chunk.
    pub(crate) fn read_plain(lookup: Lookup<'_>) -> (Result<Self, BadSetting>, Vec<Note>) {
        let plain = |name: &str| match name {
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME" => {
                lookup(name).or_else(|| lookup("NCCL_SOCKET_IFNAME"))
            }
            "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY" => {
                lookup(name).or_else(|| lookup("NCCL_SOCKET_FAMILY"))
            }
            "NCCL_DYNAMIC_CHUNK_SIZE" => lookup(name).or_else(|| Some(PLAIN_CHUNK.to_owned())),
            // NCCL's variable for socket threads enables helper threads.
            "TCPXSOFT_IO" => {
                lookup(name).or_else(|| lookup("NCCL_SOCKET_NTHREADS").map(|_| "helper".to_owned()))
            }
            // Switches of the real plugin that this flavour does not have.
            "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE" | "NCCL_GPUDIRECTTCPX_RECV_SYNC" => None,
            _ => lookup(name),
        };
        let (settings, notes) = Self::read(&plain);
        (
            settings.map(|settings| Self {
                flavour: Flavour::Plain,
                chunk_is_default: lookup("NCCL_DYNAMIC_CHUNK_SIZE").is_none(),
                ..settings
            }),
            notes,
        )
    }

    /// Whether the flavour is `Plain`.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flavour == Flavour::Plain
    }
}

struct Reader<'a> {
    lookup: Lookup<'a>,
    notes: Vec<Note>,
}

impl Reader<'_> {
    fn settings(&mut self) -> Result<Settings, BadSetting> {
        let enabled = self.integer(&ENABLE) == 1;
        let inline_threshold = self.integer(&INLINE) as usize;
        let chunk = self.integer(&CHUNK) as usize;
        let sockets_per_thread = self.integer(&SOCKETS) as usize;
        let threads = self.integer(&THREADS) as usize;
        let attempts = self.integer(&ATTEMPTS) as u32;
        let recv_sync = self.integer(&RECV_SYNC) == 1;
        let first = Duration::from_nanos(self.integer(&FIRST_REPORT) as u64);
        let again = Duration::from_nanos(self.integer(&NEXT_REPORT) as u64);
        let steering_wait = Duration::from_micros(self.integer(&STEERING) as u64);
        let [report_ctrl, report_data] = ["RX_CTRL", "SENDRECV"].map(|kind| self.reports(kind));
        self.scheduler();
        self.without_effect();
        Ok(Settings {
            flavour: Flavour::Tcpx,
            enabled,
            chunk,
            chunk_is_default: false,
            sockets_per_thread,
            threads,
            inline_threshold,
            attempts,
            recv_sync,
            patience: Patience { first, again },
            report_ctrl,
            report_data,
            steering_wait,
            real_waits: self.choice("WAITS", &[("none", false), ("real", true)])?,
            // As in the real plugin, a single character is ignored.
            interfaces: self.text("SOCKET_IFNAME").filter(|text| text.len() >= 2),
            family: self.family(),
            ctrl_interface: self.text("CTRL_DEV"),
            congestion: self.own("CONGESTION"),
            io: self.choice(
                "IO",
                &[
                    ("inline", Io::Inline),
                    ("helper", Io::Helper),
                    ("auto", Io::Auto),
                ],
            )?,
            bounds_send_buffer: self.choice("SEND_BUFFER", &[("kernel", false), ("auto", true)])?,
            connect: self.choice(
                "CONNECT",
                &[
                    ("stepwise", Connect::Stepwise),
                    ("blocking", Connect::Blocking),
                ],
            )?,
            cuda: self.choice(
                "CUDA",
                &[
                    ("off", Cuda::Off),
                    ("standin", Cuda::StandIn),
                    ("device", Cuda::Device),
                ],
            )?,
            check_unpack: self.choice("CHECK", &[("none", false), ("unpack", true)])?,
            pool_bytes: self.pool()?,
            seed: self.number("SEED", 0)?,
            fault: self.fault()?,
        })
    }

    fn integer(&mut self, integer: &Integer) -> i64 {
        let variable = format!("NCCL_{}", integer.name);
        let mut value = integer.declared;
        if let Some(text) = (self.lookup)(&variable) {
            match strtoll(&text) {
                Some(given) => {
                    value = given;
                    self.note(format!("{variable} set by environment to {given}."));
                }
                None => self.notes.push(Note {
                    flags: subsystem::ALL,
                    text: format!("Invalid value {text} for {variable}, using default {value}."),
                }),
            }
        }
        if !(integer.least..=integer.most).contains(&value) {
            self.note(format!(
                "{PRODUCT} : {} {value} invalid, restore to default.",
                integer.label
            ));
            value = integer.restored;
        }
        self.note(format!("{PRODUCT} : {}: {value}", integer.label));
        value
    }

    /// Whether both detection and report of slowness of `kind` are enabled.
    fn reports(&mut self, kind: &str) -> bool {
        let [detected, reported] = ["SLOWNESS_SWITCH", "SLOWNESS_REPORT"].map(|name| {
            let list = (self.lookup)(&format!("NCCL_GPUDIRECTTCPX_{name}"));
            list.is_none_or(|list| {
                list.split(',')
                    .any(|item| matches!(item.trim(), "ALL") || item.trim() == kind)
            })
        });
        let (detect, report) = (i32::from(detected), i32::from(detected && reported));
        self.note(format!(
            "{kind} slowness: detection {detect} report {report}"
        ));
        detected && reported
    }

    fn scheduler(&mut self) {
        let text = match self.text("SCHED_ALG").as_deref() {
            None => "unset. Using RR by default".to_owned(),
            Some("RR") => "RR".to_owned(),
            Some(other) => format!("{other} is not built here. Using RR by default"),
        };
        self.note(format!("TPCX_GPUDIRECTTCPX_SCHED_ALG {text}"));
    }

    fn without_effect(&mut self) {
        for variable in WITHOUT_EFFECT {
            if (self.lookup)(variable).is_some() {
                self.note(format!(
                    "{PRODUCT} : {variable} has no effect in the software plugin"
                ));
            }
        }
    }

    fn family(&mut self) -> Option<Family> {
        let text = self.text("SOCKET_FAMILY")?;
        self.note(format!(
            "NET_GPUDIRECTTCPX_SOCKET_FAMILY set by environment to {text}"
        ));
        match text.as_str() {
            "AF_INET" => Some(Family::V4),
            "AF_INET6" => Some(Family::V6),
            _ => None,
        }
    }

    fn pool(&mut self) -> Result<usize, BadSetting> {
        let bytes = self.number("POOL_BYTES", POOL_DEFAULT as u64)?;
        let fits = usize::try_from(bytes)
            .ok()
            .filter(|bytes| (4096..=POOL_MOST).contains(bytes));
        fits.ok_or_else(|| {
            bad(
                "TCPXSOFT_POOL_BYTES",
                &bytes.to_string(),
                format!("4096 to {POOL_MOST}"),
            )
        })
    }

    fn fault(&mut self) -> Result<Plan, BadSetting> {
        let text = self.own("FAULT").unwrap_or_default();
        let plan =
            Plan::parse(&text).map_err(|error| bad("TCPXSOFT_FAULT", &error.item, error.why))?;
        if !plan.is_empty() {
            self.note(format!("{PRODUCT} : fault injection: {text}"));
        }
        Ok(plan)
    }

    fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<T, BadSetting> {
        let text = self.own(name).unwrap_or_else(|| choices[0].0.to_owned());
        let known = || {
            choices
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let found = choices.iter().find(|(name, _)| *name == text);
        let value = found
            .map(|(_, value)| *value)
            .ok_or_else(|| bad(&format!("TCPXSOFT_{name}"), &text, known()))?;
        self.note(format!("{PRODUCT} : {}: {text}", name.to_lowercase()));
        Ok(value)
    }

    fn number(&mut self, name: &str, default: u64) -> Result<u64, BadSetting> {
        let Some(text) = self.own(name) else {
            return Ok(default);
        };
        text.parse().map_err(|_| {
            bad(
                &format!("TCPXSOFT_{name}"),
                &text,
                "a whole number".to_owned(),
            )
        })
    }

    /// A string setting: `TCPXSOFT_X`, or else the real plugin's variable.
    fn text(&self, name: &str) -> Option<String> {
        self.own(name)
            .or_else(|| (self.lookup)(&format!("NCCL_GPUDIRECTTCPX_{name}")))
            .filter(|text| !text.is_empty())
    }

    fn own(&self, name: &str) -> Option<String> {
        (self.lookup)(&format!("TCPXSOFT_{name}")).filter(|text| !text.is_empty())
    }

    fn note(&mut self, text: String) {
        self.notes.push(Note {
            flags: subsystem::ENV,
            text,
        });
    }
}

fn bad(variable: &str, value: &str, expected: String) -> BadSetting {
    BadSetting {
        variable: variable.to_owned(),
        value: value.to_owned(),
        expected,
    }
}

#[cfg(test)]
impl Settings {
    /// The settings for an environment of `pairs`.
    pub(crate) fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let lookup = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Self::read(&lookup).0.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pairs: &[(&str, &str)]) -> (Result<Settings, BadSetting>, Vec<String>) {
        let lookup = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let (settings, notes) = Settings::read(&lookup);
        (settings, notes.into_iter().map(|note| note.text).collect())
    }

    #[test]
    fn an_empty_environment_gives_the_defaults_of_3_1_9() {
        let (settings, notes) = read(&[]);
        let settings = settings.unwrap();
        assert_eq!(
            (
                settings.chunk,
                settings.sockets_per_thread,
                settings.threads
            ),
            (0, 1, 1)
        );
        assert_eq!(
            (
                settings.recv_sync,
                settings.attempts,
                settings.inline_threshold
            ),
            (false, 3, 0)
        );
        assert_eq!(
            (settings.io, settings.cuda, settings.real_waits),
            (Io::Inline, Cuda::Off, false)
        );
        assert_eq!(settings.patience.first, Duration::from_secs(10));
        assert!(notes.contains(&"NET/TCPXSoft : dynamic chunk size: 0".to_owned()));
        assert!(notes.contains(
            &"NET/TCPXSoft : nsocks per thread -2 invalid, restore to default.".to_owned()
        ));
    }

    #[test]
    fn a_value_out_of_range_restores_the_built_in_default_and_is_logged() {
        let (settings, notes) = read(&[
            ("NCCL_DYNAMIC_CHUNK_SIZE", "-1"),
            ("NCCL_NSOCKS_PERTHREAD", "9"),
        ]);
        let settings = settings.unwrap();
        assert_eq!((settings.chunk, settings.sockets_per_thread), (131_072, 1));
        assert!(notes.contains(&"NCCL_DYNAMIC_CHUNK_SIZE set by environment to -1.".to_owned()));
        assert!(notes.contains(
            &"NET/TCPXSoft : dynamic chunk size -1 invalid, restore to default.".to_owned()
        ));
        assert!(notes.contains(&"NET/TCPXSoft : dynamic chunk size: 131072".to_owned()));
    }

    #[test]
    fn a_number_too_large_for_c_keeps_the_declared_default() {
        let (settings, notes) = read(&[("NCCL_DYNAMIC_CHUNK_SIZE", "99999999999999999999")]);
        assert_eq!(settings.unwrap().chunk, 0);
        let line =
            "Invalid value 99999999999999999999 for NCCL_DYNAMIC_CHUNK_SIZE, using default 0.";
        assert!(notes.contains(&line.to_owned()));
    }

    #[test]
    fn a_tcpxsoft_variable_overrides_the_real_plugin_s() {
        let both = [
            ("TCPXSOFT_SOCKET_IFNAME", "eth1"),
            ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth2"),
        ];
        assert_eq!(read(&both).0.unwrap().interfaces.as_deref(), Some("eth1"));
        assert_eq!(
            read(&both[1..]).0.unwrap().interfaces.as_deref(),
            Some("eth2")
        );
        assert_eq!(
            read(&[("TCPXSOFT_SOCKET_IFNAME", "e")])
                .0
                .unwrap()
                .interfaces,
            None
        );
    }

    #[test]
    fn an_invalid_tcpxsoft_value_is_refused_with_the_valid_ones() {
        let check = |variable: &str, value: &str, expected: &str| {
            let error = read(&[(variable, value)]).0.unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{variable} is `{value}`, expected {expected}")
            );
        };
        check("TCPXSOFT_IO", "threads", "inline or helper or auto");
        check("TCPXSOFT_CUDA", "yes", "off or standin or device");
        check("TCPXSOFT_CONNECT", "x", "stepwise or blocking");
        check("TCPXSOFT_SEND_BUFFER", "128K", "kernel or auto");
        check("TCPXSOFT_WAITS", "1", "none or real");
        check("TCPXSOFT_CHECK", "pages", "none or unpack");
        check("TCPXSOFT_POOL_BYTES", "100", "4096 to 4294963200");
        check("TCPXSOFT_SEED", "abc", "a whole number");
    }

    #[test]
    fn slowness_lines_need_both_detection_and_report() {
        let settings = read(&[("NCCL_GPUDIRECTTCPX_SLOWNESS_SWITCH", "RX_CTRL,TX_COMP")])
            .0
            .unwrap();
        assert!(settings.report_ctrl && !settings.report_data);
        let settings = read(&[("NCCL_GPUDIRECTTCPX_SLOWNESS_REPORT", "SENDRECV")])
            .0
            .unwrap();
        assert!(!settings.report_ctrl && settings.report_data);
    }

    #[test]
    fn settings_for_missing_hardware_are_logged() {
        let (_, notes) = read(&[("NCCL_MIN_ZCOPY_SIZE", "1")]);
        assert!(
            notes
                .iter()
                .any(|note| note.contains("NCCL_MIN_ZCOPY_SIZE has no effect"))
        );
    }

    proptest! {
        #[test]
        fn any_value_of_any_variable_is_read_or_refused(value in "\\PC{0,24}") {
            for name in ["NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_SOCKET_NTHREADS", "TCPXSOFT_FAULT", "TCPXSOFT_POOL_BYTES"] {
                if let Ok(settings) = read(&[(name, &value)]).0 {
                    prop_assert!((1..=16).contains(&settings.threads));
                    prop_assert!(settings.chunk < i32::MAX as usize);
                }
            }
        }
    }

    #[test]
    fn the_plain_flavour_reads_nccls_variables_and_needs_none() {
        let read = |pairs: &[(&str, &str)]| {
            let lookup = |name: &str| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            Settings::read_plain(&lookup).0.unwrap()
        };
        let bare = read(&[("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", "0")]);
        assert!(bare.is_plain() && bare.enabled && bare.chunk == 131_072 && bare.io == Io::Inline);
        assert_eq!(bare.cuda, Cuda::Off);
        let named = read(&[("NCCL_SOCKET_IFNAME", "eth"), ("NCCL_SOCKET_NTHREADS", "2")]);
        assert_eq!(
            (named.interfaces.as_deref(), named.threads, named.io),
            (Some("eth"), 2, Io::Helper)
        );
    }
}
