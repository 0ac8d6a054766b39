//! `libnccl_net_tcpxtap_v7_v8.so`: the tap for a plugin that exports versions 7 and 8.
//!
//! What a library exports is a promise, since NCCL takes the highest version it
//! finds; so there is one object per set of versions, and all of it is in
//! `tcpx_tap`.

tcpx_tap::shared_object!(v7 ncclNetPlugin_v7, v8 ncclNetPlugin_v8);
