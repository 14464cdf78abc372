use proptest::prelude::*;

use super::*;

const VECTORS: &str = include_str!("../../../tests/vectors/eventmq-0.3.13.jsonl");

#[derive(serde::Deserialize)]
struct Vector {
    frames: Vec<String>,
}

/// The recording's frames; its text is latin-1, so each character is one byte.
fn vectors() -> Vec<Vec<Vec<u8>>> {
    let line = |line: &str| serde_json::from_str::<Vector>(line).unwrap().frames;
    let bytes = |text: String| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    VECTORS.lines().skip(1).map(|text| line(text).into_iter().map(bytes).collect()).collect()
}

fn wire(message: &Message) -> Vec<u8> {
    message.wire().iter().flat_map(|chunk| chunk.iter().copied()).collect()
}

/// Rebuilds what keeps its message from its parts, so that a round trip shows something.
fn rebuilt(envelope: &Envelope<'_>) -> Message {
    match &envelope.command {
        Command::Request(r) => Request::build(&envelope.msgid, r.queue, r.headers.0, r.message.frame(6).unwrap()),
        Command::Schedule(s) | Command::Unschedule(s) => {
            let body = [s.queue, s.headers.0, s.interval.unwrap(), s.payload, s.cron.unwrap()];
            Schedule::build(envelope.command.name(), &envelope.msgid, body)
        }
        _ => envelope.to_message(),
    }
}

#[test]
fn every_recorded_message_comes_back_byte_for_byte() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 52);
    for frames in vectors {
        let message = Message::from_frames(&frames);
        let envelope = Envelope::parse(&message).unwrap();
        assert_eq!(wire(&envelope.to_message()), wire(&message));
        assert_eq!(wire(&rebuilt(&envelope)), wire(&message));
        assert_eq!(envelope.msgid.as_bytes(), frames[MSGID_FRAME]);
        if let Command::Request(request) = &envelope.command {
            assert_eq!(request.headers.0, frames[REQUEST_HEADERS_FRAME]);
            assert!(request.headers.read().unwrap().reply_requested);
        }
    }
}

#[test]
fn accepts_both_spellings_and_all_forms() {
    let parse = |frames: &[&str]| {
        let frames: Vec<&str> = ["", PROTOCOL].iter().chain(frames).copied().collect();
        let message = Message::from_frames(frames);
        Envelope::parse(&message)
            .map(|envelope| (envelope.command.name(), wire(&envelope.to_message()) == wire(&message)))
    };
    for (frames, name) in [
        (&["INFORM", "1", "a,b"][..], CommandName::Inform),
        (&["INFORM", "1", "", "worker"], CommandName::Inform),
        (&["HEARTBEAT", "1"], CommandName::Heartbeat),
        (&["HEARTBEAT", "1", "12.5"], CommandName::Heartbeat),
        (&["SCHEDULE", "1", "q", "", "m"], CommandName::Schedule),
        (&["SCHEDULE", "1", "q", "", "2", "m"], CommandName::Schedule),
        (&["UNSCHEDULE", "1", "q", "", "2", "m", "* * * * *"], CommandName::Unschedule),
        (&["PUBLISH", "1", "t", "m"], CommandName::Publish),
        (&["PUBLISH", "1", "t", "h", "m"], CommandName::Publish),
        (&["REPLY", "1", "2"], CommandName::Reply),
        (&["REPLY", "1", "{}", "2"], CommandName::Reply),
        (&["KBYE", "1"], CommandName::Kbye),
        (&["DISCONNECT", "1"], CommandName::Disconnect),
        (&["ROUTER_SHOW_DEAD", "1"], CommandName::ShowDead),
        (&["ROUTER_RETRY_DEAD", "1"], CommandName::RetryDead),
        (&["ROUTER_RETRY_DEAD", "1", "2"], CommandName::RetryDead),
    ] {
        assert_eq!(parse(frames), Ok((name, true)), "{frames:?}");
    }
    assert_eq!(parse(&["KBAI", "1"]), Ok((CommandName::Kbye, false)), "accepted, but KBYE is sent");
}

#[test]
fn says_what_is_wrong() {
    let long = "x".repeat(256);
    for (frames, error) in [
        (vec!["", PROTOCOL, "READY"], ParseError::TooFewFrames(3)),
        (vec![""], ParseError::TooFewFrames(1)),
        (vec!["x", PROTOCOL, "READY", "1"], ParseError::Delimiter),
        (vec!["", "eMQP/2.0", "READY", "1"], ParseError::Protocol),
        (vec!["", PROTOCOL, "ready?", "1"], ParseError::Command),
        (vec!["", PROTOCOL, "READY", ""], ParseError::MsgId(MsgIdError::Empty)),
        (vec!["", PROTOCOL, "READY", &long], ParseError::MsgId(MsgIdError::TooLong(256))),
        (vec!["", PROTOCOL, "READY", "1", "x"], ParseError::BodyFrames { command: CommandName::Ready, frames: 1 }),
        (vec!["", PROTOCOL, "REQUEST", "1", "q"], ParseError::BodyFrames { command: CommandName::Request, frames: 1 }),
        (vec!["", PROTOCOL, "INFORM", "1", "", "cook"], ParseError::PeerKind),
        (vec!["", PROTOCOL, "REPLY", "1", "{}", ""], ParseError::BodyMsgId(MsgIdError::Empty)),
    ] {
        assert_eq!(Envelope::parse(&Message::from_frames(frames)), Err(error));
    }
}

#[test]
fn a_broken_request_still_has_a_legible_id() {
    let message = Message::from_frames(["", PROTOCOL, "REQUEST", "7", "q"]);
    assert_eq!(legible_msgid(&message, CommandName::Request), MsgId::new("7").ok());
    assert_eq!(legible_msgid(&message, CommandName::Schedule), None);
    assert_eq!(legible_msgid(&Message::from_frames([""]), CommandName::Request), None);
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::sample::select(vec![
        "",
        PROTOCOL,
        "READY",
        "REPLY",
        "REQUEST",
        "HEARTBEAT",
        "INFORM",
        "ACK",
        "SCHEDULE",
        "UNSCHEDULE",
        "PUBLISH",
        "DISCONNECT",
        "KBYE",
        "HELLO",
        "STATUS",
        "ROUTER_RETRY_DEAD",
        "worker",
        "scheduler",
        "timeout:9",
        "[[1,\"a\"]]",
    ]);
    prop_oneof![
        4 => word.prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

proptest! {
    #[test]
    fn what_parses_comes_back_and_garbage_never_panics(
        well_begun in any::<bool>(), frames in proptest::collection::vec(frame(), 0..9)
    ) {
        let mut all = if well_begun { vec![vec![], PROTOCOL.as_bytes().to_vec()] } else { vec![] };
        all.extend(frames);
        let message = Message::from_frames(&all);
        if let Ok(envelope) = Envelope::parse(&message) {
            prop_assert_eq!(envelope.to_message(), message.clone());
            if let Command::Inform(inform) = &envelope.command {
                let _ = inform.queue_list();
            }
        }
    }
}
