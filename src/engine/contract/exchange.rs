//! Moves many messages through both windows of a pair and verifies every byte.
#![forbid(unsafe_code)]

use super::pair::Pair;
use super::subject::{Checked, Step, while_moving};

/// Moves one message per entry of `sizes` through windows of `depth` requests, verifies
/// each, and returns the total bytes.
pub(super) fn exchange(pair: &mut Pair<'_>, sizes: &[usize], depth: usize) -> Checked<u64> {
    let (mut sent, mut posted, mut received) = (0, 0, 0);
    while_moving(&format!("{} messages arrive", sizes.len()), || {
        let before = (sent, posted, received);
        while posted < sizes.len()
            && posted < received + depth
            && pair.try_receive(posted, sizes[posted])??
        {
            posted += 1;
        }
        while sent < sizes.len()
            && pair.sends.len() < depth
            && pair.try_send(sent, sizes[sent])??
        {
            sent += 1;
        }
        let moved = pair.drive()?;
        while let Some(oldest) = pair.done.front().copied() {
            if pair.unpacks() && oldest.len > 0 {
                pair.unpack(oldest)?;
            }
            pair.verify(oldest.message, oldest.len)?;
            pair.hand_back()?;
            received += 1;
        }
        if received == sizes.len() && sent == sizes.len() && pair.sends.is_empty() {
            return Ok(Step::Complete);
        }
        if moved || before != (sent, posted, received) {
            return Ok(Step::Moved);
        }
        Ok(Step::Nothing)
    })?;
    Ok(sizes.iter().map(|size| *size as u64).sum())
}
