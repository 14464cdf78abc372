//! Bytes as peers write them.

/// Bytes from hexadecimal digits; everything else is for the eye.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The greeting of a NULL peer as libzmq 4.3.5 writes it.
pub fn greeting() -> Vec<u8> {
    let mut bytes = hex("ff0000000000000001 7f 03 01 4e554c4c");
    bytes.resize(64, 0);
    bytes
}

/// A property as READY lists them.
pub fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// A frame in its shortest form.
pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(len) => vec![flags, len],
        Err(_) => return long_frame(flags, body),
    };
    bytes.extend_from_slice(body);
    bytes
}

/// A frame with an eight-byte size, whatever its length.
pub fn long_frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(flags, body.len() as u64);
    bytes.extend_from_slice(body);
    bytes
}

/// The header of a long frame that announces `size`.
pub fn header(flags: u8, size: u64) -> Vec<u8> {
    let mut bytes = vec![flags | 2];
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes
}

/// A command frame: its name with its length, and what belongs to it.
pub fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(4, &body)
}

/// A READY as libzmq writes it.
pub fn ready(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    command("READY", &[property("Socket-Type", socket_type.as_bytes()), property("Identity", identity)].concat())
}

/// A message's frames on the wire.
pub fn wire<B: AsRef<[u8]>>(bodies: &[B]) -> Vec<u8> {
    let last = bodies.len() - 1;
    bodies.iter().enumerate().flat_map(|(i, body)| frame(u8::from(i < last), body.as_ref())).collect()
}

/// A subscription, or its end, in the form of a command or of a message.
pub fn wish(subscribe: bool, topic: &[u8], as_command: bool) -> Vec<u8> {
    match as_command {
        true => command(if subscribe { "SUBSCRIBE" } else { "CANCEL" }, topic),
        false => frame(0, &[&[u8::from(subscribe)], topic].concat()),
    }
}
