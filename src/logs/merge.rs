//! Puts the tallies of threads and files together.
#![forbid(unsafe_code)]

use super::seen::{Place, SeenShape, add_value};
use super::tally::{FlowKey, FlowSeen, Tally};
use std::collections::BTreeMap;

impl Tally {
    /// Adds the tally of another thread or file.
    pub(super) fn merge(&mut self, other: Self) {
        let numbers: Vec<u32> = other
            .speakers
            .into_iter()
            .map(|speaker| self.number(speaker))
            .collect();
        let number = |speaker: u32| numbers.get(speaker as usize).copied().unwrap_or_default();
        self.lines += other.lines;
        self.matched_lines += other.matched_lines;
        self.filtered_records += other.filtered_records;
        self.filtered_nodes = self.filtered_nodes.max(other.filtered_nodes);
        self.has_peer_channels |= other.has_peer_channels;
        self.channel_ranks = self.channel_ranks.max(other.channel_ranks);
        self.has_node_nvlink |= other.has_node_nvlink;
        self.has_shared_channels |= other.has_shared_channels;
        self.most_ranks = self.most_ranks.max(other.most_ranks);
        other
            .seen
            .into_iter()
            .for_each(|((signature, speaker), seen)| {
                self.add_seen((signature, number(speaker)), seen)
            });
        for (shape, seen) in other.shapes {
            let mut new = SeenShape::new(seen.lines, seen.context, seen.is_notice);
            new.lacks_speakers = seen.lacks_speakers;
            for (speaker, place) in seen.last {
                new.said_by(number(speaker), place, &mut self.lasts);
            }
            self.add_shape(shape, new);
        }
        self.stated.merge(other.stated);
        self.ends.merge(other.ends, number);
        self.claims.merge(other.claims, number);
        self.calls.merge(other.calls, number);
        self.commands.merge(other.commands);
        self.fronts.merge(other.fronts);
        for ((speaker, key), values) in other.settings {
            values
                .into_iter()
                .for_each(|value| self.add_setting((number(speaker), key.clone()), value));
        }
        for (speaker, values) in other.versions {
            let into = self.versions.entry(number(speaker)).or_default();
            values.into_iter().for_each(|value| add_value(into, value));
        }
        for (speaker, names) in other.transports {
            for (name, (proof, place)) in names {
                self.add_transport(number(speaker), &name, proof, place);
            }
        }
        for (speaker, nodes) in other.nodes {
            self.nodes(number(speaker), nodes);
        }
        for (speaker, place) in other.init_complete {
            self.init_complete(number(speaker), place);
        }
        for (speaker, rank) in other.ready_ranks {
            self.ready_rank(number(speaker), rank);
        }
        for (speaker, (place, wait)) in other.collectives {
            self.collective(number(speaker), place, wait);
        }
        for ((speaker, process), (place, wait)) in other.process_waits {
            self.process_wait((number(speaker), process), place, wait);
        }
        for ((speaker, sequence), (place, group)) in other.failed_groups {
            self.name_group(number(speaker), sequence, place, &group);
        }
        for ((speaker, group), (place, started)) in other.progress {
            self.progress(number(speaker), group, place, started);
        }
        for ((speaker, comm), (place, rank)) in other.members {
            self.member(number(speaker), comm, place, rank);
        }
        for (speaker, (place, devices)) in other.devices {
            self.add_devices(number(speaker), place, devices);
        }
        for (speaker, (comms, bytes)) in other.bytes_sent {
            let (all, sum) = self.bytes_sent.entry(number(speaker)).or_default();
            (*all, *sum) = (*all + comms, sum.saturating_add(bytes));
        }
        for (key, flow) in other.flows {
            self.merge_flow(
                FlowKey {
                    speaker: number(key.speaker),
                    ..key
                },
                flow,
            );
        }
        other
            .too_many
            .into_iter()
            .for_each(|(kind, count)| *self.too_many.entry(kind).or_default() += count);
    }

    fn merge_flow(&mut self, key: FlowKey, flow: FlowSeen) {
        let Some(into) = self.flow_of(key) else {
            return;
        };
        into.nic = into.nic.take().or(flow.nic);
        into.is_control |= flow.is_control;
        into.made += flow.made;
        into.slow += flow.slow;
    }

    /// Turns line numbers within blocks into line numbers of the file.
    pub(super) fn resolve(&mut self, resolved: impl Fn(Place) -> Place) {
        self.stated.resolve(&resolved);
        let shapes = self.shapes.values_mut().map(|shape| &mut shape.lines);
        for seen in self.seen.values_mut().chain(shapes) {
            (seen.first, seen.last) = (resolved(seen.first), resolved(seen.last));
            for text in &mut seen.below {
                text.place = resolved(text.place);
            }
        }
        let last = self
            .shapes
            .values_mut()
            .flat_map(|shape| shape.last.values_mut());
        let networks = self.transports.values_mut().flat_map(BTreeMap::values_mut);
        let groups = self.progress.values_mut().map(|(place, _)| place);
        let members = self.members.values_mut().map(|(place, _)| place);
        let claims = self.claims.places_mut();
        let places = last
            .chain(claims)
            .chain(self.calls.places_mut())
            .chain(groups)
            .chain(self.failed_groups.values_mut().map(|(place, _)| place))
            .chain(members)
            .chain(self.init_complete.values_mut())
            .chain(self.collectives.values_mut().map(|(place, _)| place))
            .chain(self.process_waits.values_mut().map(|(place, _)| place))
            .chain(self.devices.values_mut().map(|(place, _)| place))
            .chain(networks.map(|(_, place)| place));
        for place in places {
            *place = resolved(*place);
        }
    }
}
