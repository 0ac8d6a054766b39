//! `ncclNet_v7_t`: device handles, `regMr` takes its size as a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v7 version_calls 7);
