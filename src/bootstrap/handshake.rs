//! The order of `Hello` and `Proof`, for either end, without a socket or a clock.
//!
//! The hellos carry the greetings of a Noise handshake; what follows them is encrypted. A hello
//! shows that its writer has the secret, but may be a recorded one, so a peer has proved itself
//! only with its `Proof`, the first message that its session decrypts.
//!
//! Cannot continue after an error: the caller drops the connection.
#![forbid(unsafe_code)]

use super::error::Cause;
use super::message::{Message, PROTOCOL_VERSION, Refusal, Role};
use super::noise::{Greeting, Noise, Purpose, Session};
use super::secret::Secret;
use std::io;

pub(super) struct Handshake {
    role: Role,
    state: State,
}

enum State {
    /// Waits for the peer's hello.
    Hello(Noise),
    /// Waits for the peer's proof, decrypted.
    Proof,
    /// Proven, or failed.
    Over,
}

/// The next step after a message.
#[derive(Debug)]
pub(super) enum Step {
    /// Send a hello with this greeting, if any, then encrypt and decrypt everything. The end that
    /// connects sends its proof.
    Encrypt {
        hello: Option<Greeting>,
        session: Session,
    },
    /// The peer has the secret and is there. The end that listens sends its proof.
    Proven,
}

impl Handshake {
    /// The end that connects, and the hello to send.
    pub(super) fn connects(secret: &Secret, purpose: Purpose) -> Result<(Self, Message), Cause> {
        let role = Role::Connects;
        let mut noise = Noise::new(secret, purpose, role).map_err(no_keys)?;
        let greeting = noise.write().map_err(no_keys)?;
        let state = State::Hello(noise);
        Ok((Self { role, state }, Message::Hello { role, greeting }))
    }

    /// The end that listens. It sends nothing before the peer's hello is valid.
    pub(super) fn listens(secret: &Secret, purpose: Purpose) -> Result<Self, Cause> {
        let role = Role::Listens;
        let state = State::Hello(Noise::new(secret, purpose, role).map_err(no_keys)?);
        Ok(Self { role, state })
    }

    /// Whether the peer has sent a valid hello.
    pub(super) fn greeted(&self) -> bool {
        matches!(self.state, State::Proof)
    }

    pub(super) fn receive(&mut self, message: Message) -> Result<Step, Cause> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (message, state) {
            (Message::Hello { role, greeting }, State::Hello(noise))
                if role == self.role.other() =>
            {
                self.greet(noise, &greeting)
            }
            (Message::Hello { .. }, State::Hello(_)) => {
                Err(Cause::garbage("the peer has the same role as this end"))
            }
            (Message::Proof, State::Proof) => Ok(Step::Proven),
            (Message::Refusal(refusal), _) => Err(refused(refusal)),
            (other, _) => Err(Cause::garbage(format!(
                "the peer sent {} before its proof",
                other.name()
            ))),
        }
    }

    fn greet(&mut self, mut noise: Noise, theirs: &Greeting) -> Result<Step, Cause> {
        noise.read(theirs).map_err(|_| Cause::WrongSecret)?;
        let hello = match self.role {
            Role::Connects => None,
            Role::Listens => Some(noise.write().map_err(no_keys)?),
        };
        self.state = State::Proof;
        let session = noise.session().map_err(no_keys)?;
        Ok(Step::Encrypt { hello, session })
    }
}

fn no_keys(source: io::Error) -> Cause {
    Cause::System {
        doing: "make the keys of a connection",
        source,
    }
}

/// The refusal to send to a connection that is rejected for `cause`.
pub(super) fn refusal(cause: &Cause) -> Refusal {
    match cause {
        Cause::WrongSecret => Refusal::WrongSecret,
        Cause::OtherVersion { .. } => Refusal::OtherVersion,
        Cause::Dropped => Refusal::Dropped,
        _ => Refusal::Unexpected,
    }
}

fn refused(refusal: Refusal) -> Cause {
    match refusal {
        Refusal::WrongSecret => Cause::WrongSecret,
        Refusal::Dropped => Cause::Dropped,
        // A peer of another version is recognised by its header, before any refusal.
        Refusal::OtherVersion => Cause::garbage(format!(
            "the peer refuses version {PROTOCOL_VERSION}, which is its own"
        )),
        Refusal::Unexpected => Cause::garbage("the peer did not understand the handshake"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connects(secret: u8) -> (Handshake, Message) {
        Handshake::connects(&Secret::of_test(secret), Purpose::Pair).expect("randomness")
    }

    fn listens(secret: u8) -> Handshake {
        Handshake::listens(&Secret::of_test(secret), Purpose::Pair).expect("randomness")
    }

    /// The listener's hello.
    fn answer(step: Result<Step, Cause>) -> Message {
        let role = Role::Listens;
        match step {
            Ok(Step::Encrypt {
                hello: Some(greeting),
                ..
            }) => Message::Hello { role, greeting },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_ends_with_the_same_secret_prove_themselves() {
        let ((mut connector, hello), mut listener) = (connects(7), listens(7));
        assert!(!listener.greeted());
        let hello = answer(listener.receive(hello));
        assert!(listener.greeted());
        assert!(matches!(
            connector.receive(hello),
            Ok(Step::Encrypt { hello: None, .. })
        ));
        for mut end in [listener, connector] {
            assert!(matches!(end.receive(Message::Proof), Ok(Step::Proven)));
            assert!(end.receive(Message::Proof).is_err(), "a second one");
        }
    }

    #[test]
    fn each_end_detects_that_the_other_has_another_secret() {
        let (mut connector, hello) = connects(8);
        assert!(matches!(listens(7).receive(hello), Err(Cause::WrongSecret)));
        // A listener that answers a hello of its own secret.
        let unasked = answer(listens(7).receive(connects(7).1));
        assert!(matches!(
            connector.receive(unasked),
            Err(Cause::WrongSecret)
        ));
    }

    #[test]
    fn a_recorded_answer_is_refused() {
        let recorded = answer(listens(7).receive(connects(7).1));
        assert!(matches!(
            connects(7).0.receive(recorded),
            Err(Cause::WrongSecret)
        ));
    }

    #[test]
    fn a_recorded_hello_is_no_proof() {
        let (_, recorded) = connects(7);
        answer(listens(7).receive(recorded.clone()));
        let mut listener = listens(7);
        answer(listener.receive(recorded.clone()));
        assert!(matches!(
            listener.receive(recorded),
            Err(Cause::Garbage { .. })
        ));
    }

    #[test]
    fn reflected_messages_are_refused() {
        let (mut connector, hello) = connects(7);
        assert!(matches!(
            connector.receive(hello),
            Err(Cause::Garbage { .. })
        ));
        let (mut connector, hello) = connects(7);
        let Message::Hello { greeting, .. } = hello else {
            panic!("{hello:?}")
        };
        let role = Role::Listens;
        assert!(matches!(
            connector.receive(Message::Hello { role, greeting }),
            Err(Cause::WrongSecret)
        ));
    }

    #[test]
    fn messages_out_of_order_are_refused() {
        for message in [Message::Ready, Message::Bye, Message::Proof] {
            let mut listener = listens(7);
            assert!(matches!(
                listener.receive(message),
                Err(Cause::Garbage { .. })
            ));
            // Nothing is accepted after an error.
            assert!(listener.receive(Message::Proof).is_err());
        }
        let mut listener = listens(7);
        answer(listener.receive(connects(7).1));
        assert!(matches!(
            listener.receive(connects(7).1),
            Err(Cause::Garbage { .. })
        ));
    }
}
