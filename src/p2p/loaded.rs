//! The plugin of this process, loaded once: a plugin's `init` may run only once, so all endpoints of
//! a process with the same plugin share it, and the flight recorder with it.
#![expect(
    unsafe_code,
    reason = "sets a variable that the plugin reads in `init`, and runs a function at exit"
)]

use crate::gpu::Movable;
use crate::shown::role;
use crate::{Error, Settings};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use tcpx_engine::gpu::CudaMemory;
use tcpx_engine::plugin::{Net, Plugin, tapped};
use tcpx_node::plugin_files::{LoadError, PluginSource, choose, inspect};
use tcpx_recorder::{Options, Recorder, SHARED_MEMORY, sweep};
use tcpx_tap::Tap;

/// Most comms of a process that the recorder keeps apart.
const RECORDED_COMMS: u32 = 4096;
const TASK_CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
/// What the software plugin takes device memory for.
pub(crate) const SOFT_CUDA: &str = "TCPXSOFT_CUDA";

/// An initialised plugin, of a program that has loaded it by itself.
pub struct Loaded {
    /// Its calls, through the tap if there is one.
    pub net: Arc<dyn Net>,
    /// The flight recorder's tap.
    pub tap: Option<Tap>,
    /// The devices that lanes are dealt over.
    pub devices: Vec<usize>,
    /// Interface of the first of them.
    pub interface: Option<String>,
    /// SHA-256 of the file, or `builtin`.
    pub sha256: String,
}

impl Loaded {
    /// The device of a lane.
    pub(crate) fn device_of(&self, lane: usize) -> usize {
        self.devices[lane % self.devices.len()]
    }

    /// Checks that endpoints can be made over the plugin.
    ///
    /// # Errors
    /// Its `connect` waits for the peer, or it has no devices.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.net.calls().limits().asks_again {
            return Err(format!(
                "the table in use is version {}, whose connect waits for the peer; version 5 is needed",
                self.net.about().abi
            ));
        }
        match self.devices.is_empty() {
            true => Err("it has no devices; check its interface settings".to_owned()),
            false => Ok(()),
        }
    }
}

/// A plugin that this crate has loaded, and the names of the endpoints over it.
struct Used {
    loaded: Arc<Loaded>,
    /// The GPU of the endpoint that loaded it.
    gpu: Option<Arc<CudaMemory>>,
    endpoints: Vec<String>,
}

impl Used {
    /// Names the endpoints in the flight recorder. The last one stays named.
    fn show(&self) {
        if let Some(tap) = self.loaded.tap
            && !self.endpoints.is_empty()
        {
            // If the write fails, the label is that of before.
            let _ = tap.recorder().set_role(&role(&self.endpoints));
        }
    }
}

static LOADED: Mutex<BTreeMap<String, Used>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<String, Used>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of an endpoint's name among those over its plugin, until it is dropped.
pub(crate) struct Named {
    source: String,
    name: String,
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(used) = all().get_mut(&self.source)
            && let Some(at) = used.endpoints.iter().position(|name| *name == self.name)
        {
            used.endpoints.remove(at);
            used.show();
        }
    }
}

/// The plugin that the settings name, whose recorder is labelled with the endpoint until the second
/// value is dropped. For an endpoint of a GPU, the software plugin is told to move GPU memory, as long as it is not
/// loaded; an endpoint of the host's memory that comes later follows it.
pub(crate) fn plugin(
    settings: &Settings,
    movable: &mut Movable,
) -> Result<(Arc<Loaded>, Named), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Plugin(error.to_string());
    let this = || std::env::current_exe().unwrap_or_default();
    let program = settings.program.clone().unwrap_or_else(this);
    let choice = choose(&settings.plugin, |name| std::env::var(name).ok(), &program);
    let source = choice.map_err(|error| failed(&error))?.source;
    let mut all = all();
    let used = match all.entry(source.to_string()) {
        Entry::Occupied(used) => used.into_mut(),
        Entry::Vacant(place) => {
            if movable.gpu().is_some() {
                unless_set(SOFT_CUDA, "device");
            }
            place.insert(Used {
                loaded: Arc::new(load(&source, settings.chunk, &settings.name)?),
                gpu: movable.gpu().cloned(),
                endpoints: Vec::new(),
            })
        }
    };
    movable.follow(used.gpu.as_ref());
    used.endpoints.push(settings.name.clone());
    used.show();
    let named = Named {
        source: source.to_string(),
        name: settings.name.clone(),
    };
    Ok((Arc::clone(&used.loaded), named))
}

fn load(source: &PluginSource, chunk: usize, endpoint: &str) -> Result<Loaded, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Plugin(format!("plugin {source}: {error}"));
    // These errors name the file.
    let unloadable = |error: LoadError| Error::Plugin(error.to_string());
    let sha256 = match source {
        PluginSource::Builtin => "builtin".to_owned(),
        PluginSource::File(path) => inspect(path).map_err(unloadable)?.sha256,
    };
    let plugin = Plugin::open(source, None).map_err(unloadable)?;
    let about = plugin.net.about();
    if about.family().has_tcpx_semantics() {
        // Unset, the plugin cuts every message into pieces of no bytes and nothing moves.
        unless_set(TASK_CHUNK, &chunk.to_string());
    }
    let recorder = record(&format!("{} {source}", about.name), endpoint);
    let (net, tap) = match recorder.and_then(|recorder| tapped(&*plugin.net, recorder).ok()) {
        Some((net, tap)) => (net, Some(tap)),
        None => (plugin.net, None),
    };
    net.init().map_err(|error| failed(&error))?;
    let count = net.devices().map_err(|error| failed(&error))?.min(64);
    let first = (count > 0).then(|| net.properties(0)).transpose();
    let loaded = Loaded {
        interface: first.map_err(|error| failed(&error))?.map(|one| one.name),
        net,
        tap,
        devices: (0..count).collect(),
        sha256,
    };
    loaded.check().map_err(|why| failed(&why))?;
    Ok(loaded)
}

/// Sets a variable that the plugin reads in `init`, unless the program or the user has set it.
fn unless_set(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        // SAFETY: the first endpoint of a process is made before other threads of the program
        // change or read the environment without the C library's lock, as the documentation of
        // `Endpoint::new` asks.
        unsafe { std::env::set_var(name, value) };
    }
}

/// The recorder of this process; `None` if none can be made, so that `watch` shows nothing.
fn record(plugin: &str, endpoint: &str) -> Option<Arc<Recorder>> {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // Without the handler, the file stays until the next sweep.
        // SAFETY: the handler takes no argument, waits for nothing and does not panic.
        let _ = unsafe { libc::atexit(remove_recorders) };
    });
    // Those of programs that were killed; a folder that cannot be swept stays as it is.
    let _ = sweep(Path::new(SHARED_MEMORY));
    let fallback = std::env::temp_dir();
    let options = Options {
        capacity: RECORDED_COMMS,
        role: &role(&[endpoint.to_owned()]),
        plugin,
        fallback: Some(&fallback),
        ..Options::new("endpoint")
    };
    Recorder::create(&options).ok().map(Arc::new)
}

/// A static is never dropped, so the files of a program that ends are removed here.
extern "C" fn remove_recorders() {
    // A program that exits while it loads a plugin leaves the file to the next sweep.
    let Ok(all) = LOADED.try_lock() else {
        return;
    };
    for tap in all.values().filter_map(|used| used.loaded.tap) {
        // What cannot be removed is swept later.
        let _ = tap.recorder().remove();
    }
}
