//! Makes a plugin ready for use: loads, taps and initialises it, and lists its devices.
#![forbid(unsafe_code)]

use super::{Context, RECORDER, TaskResult, VERSION};
use crate::protocol::message::{Loaded, NO_RECORDER, WorkerMessage};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tcpx_engine::contract::Before;
use tcpx_engine::gpu::{DeviceMemory, HostMemory};
use tcpx_engine::plugin::{Device, Net, Plugin, tapped};
use tcpx_node::environment::{captured, shared_settings_of};
use tcpx_node::plugin_files::{ChosenPlugin, PluginSource, inspect};
use tcpx_recorder::{Options, Reader, Recorder, monotonic_ns};
use tcpx_run_model::counters::{ChannelNow, sample};
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::scenario::Scenario;
use tcpx_tap::Tap;
use tcpx_words::error::{NextStep, Outcome};

/// An initialised plugin and what the tasks need with it.
pub(super) struct Ready {
    /// The plugin, called through the tap.
    pub(super) net: Arc<dyn Net>,
    /// The tap, for events that it cannot see by itself; `None` without a recorder.
    pub(super) tap: Option<Tap>,
    /// The facts sent to the coordinator.
    pub(super) loaded: Loaded,
    /// Counters of every comm.
    pub(super) recorder: Recording,
    /// Memory of the message buffers, by lane.
    pub(super) memory: Vec<Arc<dyn DeviceMemory>>,
    /// Which channels are whose; without lanes, all are the first one's.
    pub(super) channels: LaneChannels,
    /// Devices that the connections of each lane are dealt over; an empty list is every device.
    pub(super) lane_devices: Vec<Vec<usize>>,
}

impl Ready {
    /// The memory of a connection's lane.
    pub(super) fn memory_of(&self, connection: usize) -> &Arc<dyn DeviceMemory> {
        let (lane, _) = self.channels.place(connection).unwrap_or_default();
        &self.memory[lane.min(self.memory.len() - 1)]
    }

    /// Index of a connection's device: the connections of a lane are dealt over its devices.
    pub(super) fn device_of(&self, connection: usize) -> usize {
        let (lane, place) = self.channels.place(connection).unwrap_or((0, connection));
        let of_lane = self.lane_devices.get(lane);
        match of_lane.filter(|devices| !devices.is_empty()) {
            Some(devices) => devices[place % devices.len()],
            None => connection % self.loaded.devices.len().max(1),
        }
    }

    /// The interface of a connection's device.
    pub(super) fn nic_of(&self, connection: usize) -> String {
        self.loaded
            .devices
            .get(self.device_of(connection))
            .map(|device| device.name.clone())
            .unwrap_or_default()
    }
}

/// This process's recorder; `None` if it cannot be created, so that the run has no counters.
pub(super) struct Recording(Option<Arc<Recorder>>);

impl Recording {
    /// Counters of every channel now.
    pub(super) fn now(&self) -> Vec<ChannelNow> {
        let Some(recorder) = &self.0 else {
            return Vec::new();
        };
        let snapshot = Reader::open(&recorder.path()).and_then(|mut reader| reader.snapshot());
        snapshot
            .map(|snapshot| sample::channels(&snapshot, monotonic_ns()))
            .unwrap_or_default()
    }
}

/// Loads, taps and initialises the plugin. `channels` is the number of comms to record.
pub(super) fn load(
    context: &mut Context,
    choice: &ChosenPlugin,
    channels: usize,
    label: &str,
) -> TaskResult<Ready> {
    let recorder = record(context, channels, label);
    context.enter(Phase::Loading);
    let started = Instant::now();
    let refused = |context: &Context, error: tcpx_node::plugin_files::LoadError| {
        context.failure(error.outcome(), error.to_string(), error.next_step())
    };
    let file = match &choice.source {
        PluginSource::Builtin => None,
        PluginSource::File(path) => Some(inspect(path).map_err(|error| refused(context, error))?),
    };
    let plugin =
        Plugin::open(&choice.source, choice.abi).map_err(|error| refused(context, error))?;
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    if let Some(recorder) = &recorder.0 {
        // On a full disk, the recorder has no label.
        let _ = recorder.set_plugin(&format!("{} {}", plugin.net.about().name, choice.source));
    }
    let (net, tap) = match recorder
        .0
        .clone()
        .and_then(|recorder| tapped(&*plugin.net, recorder).ok())
    {
        Some((net, tap)) => (net, Some(tap)),
        None => (plugin.net, None),
    };
    context.enter(Phase::Initialising);
    let started = Instant::now();
    net.init().map_err(|error| context.plugin_failure(&error))?;
    let init_ms = started.elapsed().as_secs_f64() * 1e3;
    let devices = devices(context, &*net)?;
    let loaded = Loaded {
        file,
        symbol: plugin.symbol,
        exports: plugin.exports,
        about: net.about(),
        version: VERSION.get().cloned(),
        devices,
        choice: choice.clone(),
        load_ms,
        init_ms,
    };
    context.tell(&WorkerMessage::Loaded(Box::new(loaded.clone())));
    Ok(Ready {
        net,
        tap,
        loaded,
        recorder,
        memory: vec![Arc::new(HostMemory::host())],
        channels: LaneChannels::default(),
        lane_devices: Vec::new(),
    })
}

fn devices(context: &Context, net: &dyn Net) -> TaskResult<Vec<Device>> {
    let count = net
        .devices()
        .map_err(|error| context.plugin_failure(&error))?;
    if count == 0 {
        let about = net.about();
        let message = format!("plugin {} is initialised but has no devices", about.name);
        let next = if about.family().has_tcpx_semantics() {
            "check NCCL_GPUDIRECTTCPX_SOCKET_IFNAME against the interfaces that `tcpxctl discover` lists".to_owned()
        } else {
            "check the plugin's own interface settings; with NCCL_DEBUG=INFO it logs why it uses none".to_owned()
        };
        return Err(context.failure(Outcome::NotRun, message, Some(next)));
    }
    (0..count.min(64))
        .map(|index| {
            net.properties(index)
                .map_err(|error| context.plugin_failure(&error))
        })
        .collect()
}

fn record(context: &Context, channels: usize, label: &str) -> Recording {
    let name = format!("worker-{}", tcpx_words::units::file_name(label));
    // A listener and a comm per connection.
    let capacity = u32::try_from(2 * channels + 8)
        .unwrap_or(u32::MAX)
        .min(tcpx_recorder::format::CAPACITY_MAX);
    let fallback = std::env::temp_dir();
    let defaults = Options::new(&name);
    // The same variable as for the tap in a foreign program; `[env]` of the scenario may set it.
    let events = std::env::var("TCPXTAP_RING_EVENTS")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let ring_events = events
        .unwrap_or(defaults.ring_events)
        .min(tcpx_recorder::format::RING_EVENTS_MAX);
    let options = Options {
        capacity,
        role: "tcpxctl worker",
        fallback: Some(&fallback),
        ring_events,
        ..defaults
    };
    let mut own = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    match Recorder::create(&options) {
        Ok(recorder) => {
            *own = Some(recorder.path());
            context.tell(&WorkerMessage::Recorder(recorder.path()));
            Recording(Some(Arc::new(recorder)))
        }
        Err(error) => {
            // The agent passes stderr on. The run continues without counters.
            eprintln!("{NO_RECORDER}: {error}");
            Recording(None)
        }
    }
}

/// The plugin's settings that both ends must share: its environment variables, without those of a
/// single node and those that the scenario sets for one role only.
pub(super) fn shared_settings(scenario: &Scenario) -> BTreeMap<String, String> {
    let mut shared = shared_settings_of(captured(std::env::vars_os()));
    shared.retain(|name, _| !scenario.env.is_one_sided(name));
    shared
}

/// Runs one row of the contract suite; each row has its own process.
pub(super) fn contract_row(
    context: &mut Context,
    choice: &ChosenPlugin,
    row: &str,
) -> TaskResult<()> {
    let before = Before::take(row);
    let ready = load(context, choice, 128, "contract")?;
    context.enter(Phase::Checking);
    let note = |so_far| context.tell(&WorkerMessage::RowSoFar(so_far));
    let (net, devices) = (&*ready.net, &ready.loaded.devices);
    let row = tcpx_engine::contract::run_row(net, devices, Some(&before), row, &note).ok_or_else(
        || {
            context.failure(
                Outcome::Usage,
                format!("no contract row `{row}`"),
                Some("see `tcpxctl selftest --list`".into()),
            )
        },
    )?;
    context.tell(&WorkerMessage::Contract(row));
    Ok(())
}
