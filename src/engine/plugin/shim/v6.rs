//! `ncclNet_v6_t`: as v5, with `regMrDmaBuf`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v6 version_calls 6);
