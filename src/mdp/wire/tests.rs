use proptest::prelude::*;
use zmtp::Message;

use super::*;

fn message(frames: &[&[u8]]) -> Message {
    Message::from_frames(frames)
}

#[test]
fn frames_are_those_of_the_rfcs() {
    let body = message(&[b"a", b""]);
    let request = |version| {
        ClientRequest { version, delimiter: Delimiter::of(version), service: b"echo", body: body.clone() }.to_message()
    };
    assert_eq!(request(Version::V01), message(&[b"", b"MDPC01", b"echo", b"a", b""]));
    assert_eq!(request(Version::V02), message(&[b"MDPC02", b"\x01", b"echo", b"a", b""]));
    let reply = |version, part| {
        ClientReply { version, delimiter: Delimiter::of(version), part, service: b"echo", body: body.clone() }
            .to_message()
    };
    assert_eq!(reply(Version::V01, Part::Final), Some(message(&[b"", b"MDPC01", b"echo", b"a", b""])));
    assert_eq!(reply(Version::V01, Part::Partial), None);
    assert_eq!(reply(Version::V02, Part::Partial), Some(message(&[b"MDPC02", b"\x02", b"echo", b"a", b""])));
    assert_eq!(reply(Version::V02, Part::Final), Some(message(&[b"MDPC02", b"\x03", b"echo", b"a", b""])));

    let reply = |part| FromWorker::Reply { part, client: b"c", body: body.clone() };
    let (partial, last) = (reply(Part::Partial), reply(Part::Final));
    for (command, v01, v02) in [
        (
            FromWorker::Ready { service: b"echo" },
            Some(&[b"\x01" as &[u8], b"echo"][..]),
            &[b"\x01" as &[u8], b"echo"][..],
        ),
        (partial, None, &[b"\x03", b"c", b"", b"a", b""]),
        (last, Some(&[b"\x03", b"c", b"", b"a", b""]), &[b"\x04", b"c", b"", b"a", b""]),
        (FromWorker::Heartbeat, Some(&[b"\x04"]), &[b"\x05"]),
        (FromWorker::Disconnect, Some(&[b"\x05"]), &[b"\x06"]),
    ] {
        let v01 = v01.map(|frames| message(&[&[b"" as &[u8], b"MDPW01"], frames].concat()));
        assert_eq!(command.to_message(Version::V01), v01);
        assert_eq!(command.to_message(Version::V02), Some(message(&[&[b"MDPW02" as &[u8]], v02].concat())));
    }
    let request = ToWorker::Request { client: b"c", body };
    let (v01, v02) = (Version::V01, Version::V02);
    assert_eq!(request.to_message(v01, Delimiter::Present), message(&[b"", b"MDPW01", b"\x02", b"c", b"", b"a", b""]));
    assert_eq!(request.to_message(v02, Delimiter::Absent), message(&[b"MDPW02", b"\x02", b"c", b"", b"a", b""]));
    assert_eq!(ToWorker::Heartbeat.to_message(v01, Delimiter::Present), message(&[b"", b"MDPW01", b"\x04"]));
    assert_eq!(ToWorker::Heartbeat.to_message(v02, Delimiter::Absent), message(&[b"MDPW02", b"\x05"]));
    assert_eq!(ToWorker::Disconnect.to_message(v01, Delimiter::Present), message(&[b"", b"MDPW01", b"\x05"]));
    assert_eq!(ToWorker::Disconnect.to_message(v02, Delimiter::Absent), message(&[b"MDPW02", b"\x06"]));
}

#[test]
fn an_empty_frame_before_an_02_header_is_tolerated() {
    let frames = message(&[b"", b"MDPC02", b"\x01", b"echo", b"x"]);
    let Ok(ToBroker::Request(request)) = ToBroker::parse(&frames) else { panic!("not a request") };
    assert_eq!((request.version, request.delimiter), (Version::V02, Delimiter::Present));
}

#[test]
fn e03_what_is_wrong_is_told() {
    let long = [b'x'; 256];
    for (frames, error) in [
        (&[b"" as &[u8], b"MDPC01", b"echo"][..], ParseError::TooFewFrames(3)),
        (&[b"x", b"MDPC01", b"echo", b"x"], ParseError::Header),
        (&[b""], ParseError::TooFewFrames(1)),
        (&[b"MDPC01", b"echo", b"x"], ParseError::NoDelimiter),
        (&[b"", b"MDPW01", b"\x01"], ParseError::TooFewFrames(3)),
        (&[b"", b"MDPW01"], ParseError::TooFewFrames(2)),
        (&[b"", b"MDPC01", b"", b"x"], ParseError::Service(ServiceNameError::Empty)),
        (&[b"", b"MDPC01", &long, b"x"], ParseError::Service(ServiceNameError::TooLong(256))),
        (&[b"", b"MDPW01", b"\x01", b""], ParseError::Service(ServiceNameError::Empty)),
        (&[b"", b"MDPC03", b"echo", b"x"], ParseError::Header),
        (&[b"", b"MDPW01", b"\x09"], ParseError::Command(Some(9))),
        (&[b"", b"MDPW01", b"\x06"], ParseError::Command(Some(6))),
        (&[b"", b"MDPW01", b"\x02", b"c", b"", b"x"], ParseError::Command(Some(2))),
        (&[b"", b"MDPW01", b"\x04\x04"], ParseError::CommandLength),
        (&[b"", b"MDPW01", b"\x03", b"c", b"x"], ParseError::NoAddressDelimiter),
        (&[b"", b"MDPW01", b"\x03", b"", b"", b"x"], ParseError::Address),
        (&[b"", b"MDPW01", b"\x03", b"c", b""], ParseError::TooFewFrames(5)),
        (&[b"MDPC02", b"\x03", b"echo", b"x"], ParseError::Command(Some(3))),
        (&[b"MDPC02", b"\x01", b"echo"], ParseError::TooFewFrames(3)),
        (&[b"MDPW02", b"\x05", b"x"], ParseError::TooManyFrames(3)),
    ] {
        let message = message(frames);
        assert_eq!(ToBroker::parse(&message), Err(error), "{message:?}");
    }
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V01), Just(Version::V02)]
}

fn body() -> impl Strategy<Value = Message> {
    let frame = prop_oneof![Just(0usize), 1..300usize, Just(9000)].prop_map(|len| vec![b'x'; len]);
    proptest::collection::vec(frame, 1..5).prop_map(Message::from_frames)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..=255)
}

/// Frames that are nearly MDP.
fn odd() -> impl Strategy<Value = Message> {
    const FRAMES: [&[u8]; 14] = [
        b"", b"MDPC01", b"MDPW01", b"MDPC02", b"MDPW02", b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", b"\xff",
        b"echo", &[7; 256],
    ];
    let frame = (0..FRAMES.len()).prop_map(|index| FRAMES[index]);
    proptest::collection::vec(frame, 1..9).prop_map(Message::from_frames)
}

proptest! {
    #[test]
    fn requests_come_back(version in version(), mirrored in any::<bool>(), service in name(), body in body()) {
        let delimiter = if mirrored { Delimiter::Present } else { Delimiter::of(version) };
        let request = ClientRequest { version, delimiter, service: &service, body };
        let message = request.to_message();
        prop_assert_eq!(ToBroker::parse(&message), Ok(ToBroker::Request(request)));
    }

    #[test]
    fn replies_come_back(version in version(), last in any::<bool>(), service in name(), body in body()) {
        let part = if last || version == Version::V01 { Part::Final } else { Part::Partial };
        let reply = ClientReply { version, delimiter: Delimiter::of(version), part, service: &service, body };
        let message = reply.to_message().unwrap();
        prop_assert_eq!(ClientReply::parse(&message), Ok(reply));
    }

    #[test]
    fn worker_commands_come_back(version in version(), kind in 0..5, client in name(), body in body()) {
        let command = match kind {
            0 => FromWorker::Ready { service: &client },
            1 => FromWorker::Reply { part: Part::Final, client: &client, body: body.clone() },
            2 => FromWorker::Heartbeat,
            3 => FromWorker::Disconnect,
            _ => FromWorker::Reply { part: Part::Partial, client: &client, body: body.clone() },
        };
        if let Some(message) = command.to_message(version) {
            let delimiter = Delimiter::of(version);
            prop_assert_eq!(ToBroker::parse(&message), Ok(ToBroker::Worker { version, delimiter, command }));
        } else {
            prop_assert_eq!((version, kind), (Version::V01, 4));
        }
        for command in [ToWorker::Request { client: &client, body }, ToWorker::Heartbeat, ToWorker::Disconnect] {
            let message = command.to_message(version, Delimiter::of(version));
            if let ToWorker::Request { body, .. } = &command {
                let index = ToWorker::body_index(Delimiter::of(version));
                prop_assert_eq!(&message.skip_frames(index).unwrap(), body);
            }
            prop_assert_eq!(ToWorker::parse(&message), Ok((version, command)));
        }
    }

    /// Whatever is read is written again as it was.
    #[test]
    fn nearly_right_messages_are_refused_or_understood_in_full(message in odd()) {
        match ToBroker::parse(&message) {
            Ok(ToBroker::Request(request)) => prop_assert_eq!(&request.to_message(), &message),
            Ok(ToBroker::Worker { version, delimiter, command }) if delimiter == Delimiter::of(version) => {
                prop_assert_eq!(command.to_message(version), Some(message.clone()));
            }
            _ => {}
        }
        if let Ok(reply) = ClientReply::parse(&message) {
            prop_assert_eq!(reply.to_message(), Some(message.clone()));
        }
        let _ = ToWorker::parse(&message);
    }
}
