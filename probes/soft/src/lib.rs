//! The software plugin.
