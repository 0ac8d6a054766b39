//! `ncclNet_v12_t`: as v11, with eight devices behind a virtual one.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v12 version_calls 12);
