//! The broker's rules one by one, on virtual time. Names begin with the case they belong to.

mod acceptance;
mod admin;
mod choice;
mod loss;
mod random;
mod retries;
mod suspects;
mod world;

use world::World;
