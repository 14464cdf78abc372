//! What is taken for an endpoint, and what the errors say.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Endpoint, EndpointError> {
    text.parse()
}

#[test]
fn accepted_forms_and_their_canonical_text() {
    for (text, canonical) in [
        ("tcp://127.0.0.1:47291", "tcp://127.0.0.1:47291"),
        ("tcp://*:5555", "tcp://*:5555"),
        ("tcp://*:*", "tcp://*:*"),
        ("tcp://localhost:0", "tcp://localhost:*"),
        ("tcp://0.0.0.0:00080", "tcp://0.0.0.0:80"),
        ("tcp://[::1]:5555", "tcp://[::1]:5555"),
        ("tcp://[0:0::0001]:65535", "tcp://[::1]:65535"),
        ("tcp://[::ffff:10.0.0.1]:1", "tcp://[::ffff:10.0.0.1]:1"),
        ("tcp://Broker-1.Example.COM:5555", "tcp://broker-1.example.com:5555"),
        ("tcp://emq_router:5555", "tcp://emq_router:5555"),
        ("tcp://example.com.:5555", "tcp://example.com.:5555"),
        ("tcp://10.example:5555", "tcp://10.example:5555"),
        ("tcp://10.0.0.1:0;Host:1", "tcp://10.0.0.1:*;host:1"),
        ("tcp://*:7;[::1]:1", "tcp://*:7;[::1]:1"),
        ("tcp://[::0]:*;[::1]:1", "tcp://[::]:*;[::1]:1"),
        ("ipc:///run/a b/Socket", "ipc:///run/a b/Socket"),
        ("ipc://relative", "ipc://relative"),
        ("ipc://*", "ipc://*"),
        ("ipc://@a/b/", "ipc://@a/b/"),
        ("ipc://*.sock", "ipc://*.sock"),
        ("inproc://any name; even://this", "inproc://any name; even://this"),
    ] {
        let endpoint = parse(text).unwrap();
        assert_eq!(endpoint.to_string(), canonical);
        assert_eq!(parse(canonical).unwrap(), endpoint);
    }
}

#[test]
fn refused_forms_say_what_is_wrong() {
    let (name, long) = ("a".repeat(64), "a".repeat(108));
    for (text, message) in [
        ("", "`` has no `://`; expected an address such as tcp://127.0.0.1:5555"),
        ("127.0.0.1:5555", "`127.0.0.1:5555` has no `://`; expected an address such as tcp://127.0.0.1:5555"),
        ("udp://a:1", "transport `udp` is not supported; expected tcp://HOST:PORT, ipc://PATH or inproc://NAME"),
        ("TCP://a:1", "unknown transport `TCP`; expected tcp://HOST:PORT, ipc://PATH or inproc://NAME"),
        ("://a:1", "unknown transport ``; expected tcp://HOST:PORT, ipc://PATH or inproc://NAME"),
        ("tcp://", "the port is missing in ``; expected HOST:PORT"),
        ("tcp://host", "the port is missing in `host`; expected HOST:PORT"),
        ("tcp://host:", "the port is missing in `host:`; expected HOST:PORT"),
        ("tcp://[::1]", "the port is missing in `[::1]`; expected HOST:PORT"),
        ("tcp://:5555", "the host is missing in `:5555`; expected HOST:PORT, or *:PORT to bind every interface"),
        ("tcp://a:65536", "`65536` is not a port; expected digits from 0 to 65535, or * for one the system chooses"),
        ("tcp://a:+1", "`+1` is not a port; expected digits from 0 to 65535, or * for one the system chooses"),
        ("tcp://a:1/", "`1/` is not a port; expected digits from 0 to 65535, or * for one the system chooses"),
        (
            "tcp://my host:1",
            "` ` at position 3 of host `my host` is not allowed; expected a name, an IPv4 address, [IPv6] or *",
        ),
        (
            "tcp://300.0.0.1:1",
            "`300.0.0.1` is not an IPv4 address; expected four numbers from 0 to 255, such as 127.0.0.1",
        ),
        ("tcp://127.1:1", "`127.1` is not an IPv4 address; expected four numbers from 0 to 255, such as 127.0.0.1"),
        ("tcp://[::g]:1", "`[::g]` is not an IPv6 address in brackets; expected for example [::1]"),
        ("tcp://[::1:1", "`[::1` is not an IPv6 address in brackets; expected for example [::1]"),
        (
            "tcp://::1:5555",
            "host `::1` contains a colon; an IPv6 address is written in brackets, as in tcp://[::1]:5555",
        ),
        ("tcp://[fe80::1%eth0]:1", "the zone in `[fe80::1%eth0]` is not supported; give an address without %ZONE"),
        (
            "tcp://lo:0;127.0.0.1:1",
            "the source address in `lo:0;...` is not an IP address; expected for example 10.0.0.1:*",
        ),
        ("tcp://*:0;a:1;b:1", "`*:0;a:1;b:1` has more than one `;`; expected SOURCE:PORT;HOST:PORT"),
        ("tcp://;a:1", "the port is missing in ``; expected HOST:PORT"),
        ("tcp://*:0;a", "the port is missing in `a`; expected HOST:PORT"),
        ("ipc://", "the path is missing in `ipc://`; expected ipc:///DIRECTORY/FILE, ipc://@NAME or, to bind, ipc://*"),
        ("ipc://@", "the name is missing in `ipc://@`; expected ipc://@NAME"),
        ("ipc:///run/", "`/run/` ends with a slash; expected the path of a socket, not of a directory"),
        ("ipc://a\0b", "the zero byte at position 2 of `a\\0b` is not allowed"),
        (&format!("ipc://{long}"), &format!("an ipc path has at most 107 bytes, this one has 108: `{long}`")),
        ("inproc://", "the name is missing in `inproc://`; expected inproc://NAME"),
        ("inproc://a\0", "the zero byte at position 2 of `a\\0` is not allowed"),
        ("tcp://a..b:1", "host `a..b` is not a name: a name has at most 253 characters, and 1 to 63 between its dots"),
        (
            &format!("tcp://{name}:1"),
            &format!("host `{name}` is not a name: a name has at most 253 characters, and 1 to 63 between its dots"),
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn bind_and_connect_have_their_own_rules() {
    for (text, bind, connect) in [
        ("tcp://*:1", true, false),
        ("tcp://*:*", true, false),
        ("tcp://127.0.0.1:0", true, false),
        ("tcp://0.0.0.0:1", true, true),
        ("tcp://host:1", true, true),
        ("tcp://lo:1", false, true),
        ("tcp://eth0:1", false, true),
        ("tcp://enp3s0:1", false, true),
        ("tcp://ethel:1", true, true),
        ("tcp://eth0.example:1", true, true),
        ("tcp://127.0.0.1:*;host:1", false, true),
        ("tcp://*:9;[::1]:1", false, true),
        ("tcp://127.0.0.1:*;[::1]:1", false, false),
        ("tcp://127.0.0.1:*;*:1", false, false),
        ("ipc://*", true, false),
        ("ipc:///run/x", true, true),
        ("ipc://@x", true, true),
        ("inproc://x", true, true),
    ] {
        let endpoint = parse(text).unwrap();
        assert_eq!(endpoint.check_bind().is_ok(), bind, "{text}");
        assert_eq!(endpoint.check_connect().is_ok(), connect, "{text}");
    }
}

#[test]
fn accessors() {
    let endpoint = parse("tcp://[::1]:5").unwrap();
    assert_eq!((endpoint.host().as_str(), endpoint.port(), endpoint.is_wildcard()), ("::1", 5, false));
    for text in ["tcp://*:5", "tcp://0.0.0.0:5", "tcp://[::]:5"] {
        assert!(parse(text).unwrap().is_wildcard());
    }
    assert_eq!(Endpoint::from(std::net::SocketAddr::from(([0, 0, 0, 0], 5))), parse("tcp://0.0.0.0:5").unwrap());
    for (text, ephemeral) in [("tcp://*:0", true), ("tcp://*:1", false), ("ipc://*", true), ("ipc://x", false)] {
        assert_eq!(parse(text).unwrap().is_ephemeral(), ephemeral, "{text}");
    }
    for (text, address) in [("@a", IpcAddress::Abstract("a")), ("*", IpcAddress::Wildcard)] {
        assert_eq!(text.parse::<IpcEndpoint>().unwrap().address(), address);
    }
    assert!(TcpEndpoint::new(Host::Name("no good".into()), 1).is_err());
    assert_eq!(TcpEndpoint::new(Host::Name("HOST".into()), 1).unwrap().to_string(), "host:1");
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        any::<Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
        "[a-zA-Z][a-zA-Z0-9_-]{0,20}(\\.[a-zA-Z][a-zA-Z0-9-]{0,9}){0,3}",
    ]
}

fn source() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        Just("*".to_owned()),
        any::<Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
    ];
    (host, any::<u16>()).prop_map(|(host, port)| format!("{host}:{port}"))
}

proptest! {
    #[test]
    fn what_is_accepted_round_trips(host in host(), port in any::<u16>(), source in proptest::option::of(source())) {
        let source = source.map(|source| format!("{source};")).unwrap_or_default();
        let endpoint = parse(&format!("tcp://{source}{host}:{port}")).unwrap();
        prop_assert_eq!(endpoint.port(), port);
        prop_assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
    }

    #[test]
    fn garbage_never_panics(text in "\\PC{0,40}") {
        let _ = parse(&text);
        for transport in ["tcp", "ipc", "inproc"] {
            if let Ok(endpoint) = parse(&format!("{transport}://{text}")) {
                prop_assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
            }
        }
    }

    #[test]
    fn near_addresses_round_trip_or_fail(text in "tcp://[\\[\\]*:;%.a-zA-Z0-9-]{0,20}") {
        if let Ok(endpoint) = parse(&text) {
            prop_assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
        }
    }
}
