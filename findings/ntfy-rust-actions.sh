#!/bin/bash
# Crate ntfy 0.9.1: its subscriber fails at each message with buttons.
#
# It reads actions with the names of its own enumeration, View, Broadcast and Http. ntfy's servers send them in lower case
# (https://docs.ntfy.sh/publish/#action-buttons), also those that the crate itself has published. The message is lost for the reader: the
# stream yields an error in its place.
# Seen: unknown variant `view`, expected one of `View`, `Broadcast`, `Http`
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat >Cargo.toml <<'END_TOML'
[package]
name = "trial"
version = "0.0.0"
edition = "2021"

[dependencies]
ntfy = { version = "=0.9.1", default-features = false, features = ["blocking-subscriber"] }
tungstenite = "=0.29.0"
END_TOML

cat >src/main.rs <<'END_RUST'
use ntfy::prelude::*;
use std::{net::TcpListener, process::exit, thread};
use tungstenite::Message;

const PLAIN: &str = r#"{"id":"hwQ2YpKdmg","time":1796000000,"event":"message","topic":"backups","message":"done"}"#;
const BUTTON: &str = r#"{"id":"xE73Iyuabi","time":1796000001,"event":"message","topic":"backups","message":"failed","actions":[{"id":"a1","action":"view","label":"Log","url":"https://example.org/log","clear":false}]}"#;

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut socket = tungstenite::accept(listener.accept().unwrap().0).unwrap();
        for text in [PLAIN, BUTTON] {
            socket.send(Message::text(text)).unwrap();
        }
        while socket.read().is_ok() {}
    });
    let subscriber = subscriber::builder(base).build_blocking().unwrap();
    let mut messages = subscriber.subscribe("backups").unwrap();
    let plain = messages.next().unwrap();
    let button = messages.next().unwrap();
    println!("ntfy 0.9.1: {:?}", plain.as_ref().map(|m| m.message.clone()));
    match button {
        Err(error) => {
            println!("ntfy 0.9.1: {error}");
            exit(if plain.is_ok() && error.to_string().contains("unknown variant `view`") { 0 } else { 1 });
        }
        Ok(message) => println!("ntfy 0.9.1: {message:?}"),
    }
    exit(1);
}
END_RUST
cargo build --quiet
timeout 60 target/debug/trial
