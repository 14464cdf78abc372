mod acceptance;
mod bridge;
mod pitfalls;
mod random;
mod world;

use world::World;
