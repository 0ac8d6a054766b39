//! What the peer of a connection says, and what follows: its reads are served, its writes and sends
//! are pulled, its answers finish what was started here.
//!
//! Every claim of the peer is checked before a message is posted for it. A refused read still
//! needs its messages, because the peer has posted receives: they are sent empty.
#![forbid(unsafe_code)]

use crate::Error;
use crate::blob::{Blob, Claim, Right};
use crate::connection::{
    Connection, Home, Lost, MESSAGES_MAX, NOTES_MAX, OPERATIONS_MAX, PROVEN_MAX, Peer, lost,
};
use crate::lane::{Finished, Job, Part};
use crate::memory::Held;
use crate::message::{Message, RemotePiece};
use crate::pending::{Ours, Pull, Starter};
use crate::pieces::{LocalPiece, bytes_of, messages_of, push};
use crate::shared_lane::SharedLane;
use crate::together::scatter;

impl Connection {
    /// Reads what the peer says and acts on it.
    pub(crate) fn hear(&mut self, home: &Home<'_>) -> Result<bool, Lost> {
        let filled = self.duplex.fill();
        // What arrived before the end is acted on first: it may say why.
        let mut used = 0;
        let bytes = std::mem::take(self.duplex.received());
        while let Some((message, len)) =
            Message::decode(&bytes[used..]).map_err(|error| error.to_string())?
        {
            used += len;
            self.act(message, home)?;
        }
        *self.duplex.received() = bytes;
        self.duplex.received().drain(..used);
        filled.map_err(|error| lost(&error))?;
        Ok(used > 0)
    }

    fn act(&mut self, message: Message, home: &Home<'_>) -> Result<(), Lost> {
        match message {
            Message::Hello {
                endpoint,
                gpu,
                name,
            } => {
                self.peer = Peer {
                    endpoint,
                    name,
                    gpu,
                };
                self.is_greeted = true;
                self.gathers = gpu.is_none() && home.memory.movable.gpu().is_none();
            }
            Message::Read {
                op,
                first_lane,
                together,
                pieces,
            } => self.serve(op, first_lane, together, &pieces, home)?,
            Message::Write {
                op,
                together,
                pieces,
            } => self.ask_for(op, together, &pieces, home)?,
            Message::Offer { op, len } => {
                self.check_new(op)?;
                self.offers.push_back((op, len));
                self.match_offers();
            }
            Message::Pull { op, first_lane } => {
                let Some(ours) = self.ours.get_mut(&op).filter(|ours| !ours.data.is_empty()) else {
                    return Err(format!(
                        "the peer asks for the data of {op}, which has none"
                    ));
                };
                let data = std::mem::take(&mut ours.data);
                ours.left = push(
                    &mut self.sends,
                    first_lane,
                    &data,
                    self.chunk,
                    Part::Data(op),
                );
            }
            Message::Sent { op } | Message::Done { op } => self.answer(op, Ok(()))?,
            Message::Refused { op, why } => self.answer(op, Err(why))?,
            Message::Notify { op, bytes } => {
                let answer = if (home.note)(self.number, bytes) {
                    Message::Done { op }
                } else {
                    let why = format!("{NOTES_MAX} notifications wait to be read there");
                    Message::Refused { op, why }
                };
                self.say(&answer);
            }
            Message::Bye { why } => return Err(format!("closed by the peer: {why}")),
        }
        Ok(())
    }

    /// Checks that the peer has room for one more write or send, and has not used its number.
    fn check_new(&self, op: u64) -> Result<(), Lost> {
        if self.offers.len() + self.pulls.len() >= OPERATIONS_MAX {
            return Err(format!(
                "the peer started more than {OPERATIONS_MAX} writes and sends at once"
            ));
        }
        if self.pulls.contains_key(&op) || self.offers.iter().any(|(known, _)| *known == op) {
            return Err(format!("the peer used the number {op} twice"));
        }
        Ok(())
    }

    /// Sends what a read of the peer asks for, or as many empty messages.
    fn serve(
        &mut self,
        op: u64,
        first_lane: u16,
        together: bool,
        pieces: &[RemotePiece],
        home: &Home<'_>,
    ) -> Result<(), Lost> {
        let served: usize = self.sends.iter().map(SharedLane::len).sum();
        let messages = if together {
            self.together_len(pieces)?;
            1
        } else {
            messages_of(pieces.iter().map(|piece| piece.len), self.chunk)
        };
        if messages > MESSAGES_MAX || served as u64 > 4 * MESSAGES_MAX {
            return Err(format!("the peer asks for {messages} messages at once"));
        }
        let claimed = self.claimed(pieces, Right::Read, home);
        let ready = match claimed {
            Ok(pieces) if together => self.staging.gather(pieces.iter()).map(|one| vec![one]),
            claimed => claimed,
        };
        match ready {
            Ok(pieces) => {
                push(
                    &mut self.sends,
                    first_lane,
                    &pieces,
                    self.chunk,
                    Part::Served(op),
                );
                self.say(&Message::Sent { op });
            }
            Err(why) => {
                for message in 0..messages as usize {
                    let lane = (usize::from(first_lane) + message) % self.sends.len();
                    let held = self.scratch.clone();
                    self.sends[lane].push(Job {
                        part: Part::Served(op),
                        held,
                        offset: 0,
                        len: 0,
                    });
                }
                self.refuse("read", op, why, home);
            }
        }
        Ok(())
    }

    /// Asks for the data of a write of the peer.
    fn ask_for(
        &mut self,
        op: u64,
        together: bool,
        pieces: &[RemotePiece],
        home: &Home<'_>,
    ) -> Result<(), Lost> {
        self.check_new(op)?;
        let len = together.then(|| self.together_len(pieces)).transpose()?;
        let claimed = self.claimed(pieces, Right::Write, home);
        let ready = claimed.and_then(|pieces| {
            let Some(len) = len else {
                return Ok((pieces, None));
            };
            let staged = self.staging.take(len)?;
            Ok((vec![staged.clone()], Some((staged, pieces))))
        });
        match ready {
            Ok((into, staged)) => {
                let pull = Pull {
                    staged,
                    ..Pull::default()
                };
                self.pull(op, &into, pull);
            }
            Err(why) => self.refuse("write", op, why, home),
        }
        Ok(())
    }

    /// Refuses what the peer asked for, and records the refusal in this end's log.
    fn refuse(&mut self, what: &str, op: u64, why: String, home: &Home<'_>) {
        let (number, peer) = (self.number, &self.peer.name);
        (home.warn)(&format!(
            "connection {number}: {what} {op} of endpoint `{peer}` refused: {why}"
        ));
        self.say(&Message::Refused { op, why });
    }

    fn answer(&mut self, op: u64, answer: Result<(), String>) -> Result<(), Lost> {
        let Some(ours) = self.ours.get_mut(&op).filter(|ours| ours.answer.is_none()) else {
            return Err(format!("the peer answers operation {op}, which is over"));
        };
        // "Done" before the data was asked for would be a lie.
        if answer.is_ok() && !ours.data.is_empty() && ours.bytes > 0 {
            return Err(format!(
                "the peer says that {} {op} is done, and has not asked for its data",
                ours.what
            ));
        }
        ours.answer = Some(answer);
        self.finish_ours(op)
    }

    /// Finishes an operation whose messages are done and which the peer has answered.
    fn finish_ours(&mut self, op: u64) -> Result<(), Lost> {
        let is_over = |ours: &Ours| ours.left == 0 && ours.answer.is_some();
        if !self.ours.get(&op).is_some_and(is_over) {
            return Ok(());
        }
        let Some(ours) = self.remove(op) else {
            return Ok(());
        };
        match (ours.answer, ours.starter) {
            (Some(Err(why)), Starter::Alone(completion)) => {
                let peer = self.peer.name.clone();
                completion.finish(Err(Error::Refused { peer, why }));
            }
            (Some(Err(_)), Starter::Together(all)) => self.again.extend(all.alone()),
            _ if ours.differs => {
                return Err(format!(
                    "{} {op} got messages of other sizes than agreed",
                    ours.what
                ));
            }
            (_, Starter::Alone(completion)) => completion.finish(Ok(ours.bytes)),
            (_, Starter::Together(all)) => all.finish()?,
        }
        Ok(())
    }

    /// Pairs offers of the peer with receives, in order.
    pub(crate) fn match_offers(&mut self) {
        while !self.offers.is_empty()
            && let Some((piece, completion)) = self.receives.pop_front()
            && let Some((op, len)) = self.offers.pop_front()
        {
            if len != piece.len as u64 {
                let why = format!(
                    "a send of {len} bytes meets a receive of {} bytes",
                    piece.len
                );
                self.say(&Message::Refused {
                    op,
                    why: why.clone(),
                });
                completion.finish(Err(Error::Usage(why)));
                continue;
            }
            let completion = Some(completion);
            let pull = Pull {
                completion,
                ..Pull::default()
            };
            self.pull(op, &[piece], pull);
        }
    }

    /// Posts receives for data of the peer and asks for it.
    fn pull(&mut self, op: u64, pieces: &[LocalPiece], mut pull: Pull) {
        pull.bytes = bytes_of(pieces);
        let first_lane = self.first_lane(messages_of(
            pieces.iter().map(|one| one.len as u64),
            self.chunk,
        ));
        self.say(&Message::Pull { op, first_lane });
        pull.left = push(
            &mut self.recvs,
            first_lane,
            pieces,
            self.chunk,
            Part::Pulled(op),
        );
        match pull.left {
            0 => self.finish_pull(op, pull),
            _ => drop(self.pulls.insert(op, pull)),
        }
    }

    fn finish_pull(&mut self, op: u64, pull: Pull) {
        self.say(&Message::Done { op });
        if let Some(completion) = pull.completion {
            completion.finish(Ok(pull.bytes));
        }
    }

    pub(crate) fn note_finished(&mut self) -> Result<(), Lost> {
        let finished = std::mem::take(&mut self.finished);
        for Finished { part, differs, .. } in &finished {
            match part {
                Part::Served(_) => {}
                Part::Read(op) | Part::Data(op) => {
                    if let Some(ours) = self.ours.get_mut(op) {
                        ours.left -= 1;
                        ours.differs |= differs;
                        self.finish_ours(*op)?;
                    }
                }
                Part::Pulled(op) => {
                    let Some(pull) = self.pulls.get_mut(op) else {
                        continue;
                    };
                    pull.left -= 1;
                    pull.differs |= differs;
                    if pull.differs {
                        return Err(format!(
                            "transfer {op} of the peer has messages of other sizes than agreed"
                        ));
                    }
                    if pull.left == 0
                        && let Some(pull) = self.pulls.remove(op)
                    {
                        if let Some((staged, pieces)) = &pull.staged {
                            scatter(staged, pieces.iter())?;
                        }
                        self.finish_pull(*op, pull);
                    }
                }
            }
        }
        // Keeps its memory for the next turn.
        self.finished = finished;
        self.finished.clear();
        Ok(())
    }

    /// The memory that the peer's pieces mean, if it may use all of it; otherwise why not.
    fn claimed(
        &mut self,
        pieces: &[RemotePiece],
        right: Right,
        home: &Home<'_>,
    ) -> Result<Vec<LocalPiece>, String> {
        let mut found = Vec::with_capacity(pieces.len());
        // Of the piece before: most vectors are of one range.
        let mut before: Option<(&Blob, Claim, Held)> = None;
        for piece in pieces {
            let (blob, claim, held) = match before.take_if(|(blob, ..)| *blob == &piece.blob) {
                Some(same) => same,
                None => {
                    let claim = self.proven(&piece.blob, home)?;
                    let held = home.memory.hold(claim.registration).map_err(|_| {
                        format!(
                            "registration {} of the descriptor was removed",
                            claim.registration
                        )
                    })?;
                    (&piece.blob, claim, held)
                }
            };
            let covers = claim.covers(claim.endpoint, right, piece.offset, piece.len);
            covers.map_err(|error| error.to_string())?;
            let start = claim.address.saturating_add(piece.offset);
            let place = usize::try_from(start)
                .ok()
                .zip(usize::try_from(piece.len).ok());
            let offset = place.and_then(|(start, len)| Some((held.offset_of(start, len)?, len)));
            let Some((offset, len)) = offset else {
                return Err("the descriptor exceeds its registration".to_owned());
            };
            found.push(LocalPiece {
                held: held.clone(),
                offset,
                len,
            });
            before = Some((blob, claim, held));
        }
        Ok(found)
    }

    /// What a blob of this endpoint says. Its MAC costs as much as a small message, so those that
    /// the peer has shown before are known.
    fn proven(&mut self, blob: &Blob, home: &Home<'_>) -> Result<Claim, String> {
        if let Some(claim) = self.proven.get(blob) {
            return Ok(*claim);
        }
        let claim = home.seal.open(blob).map_err(|error| error.to_string())?;
        if self.proven.len() >= PROVEN_MAX {
            self.proven.clear();
        }
        self.proven.insert(*blob, claim);
        Ok(claim)
    }
}
