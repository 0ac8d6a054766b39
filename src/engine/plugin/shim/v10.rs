//! `ncclNet_v10_t`: a profiler in `init`, a configuration in `connect`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v10 version_calls 10);
