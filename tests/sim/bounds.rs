//! Memory that grows with what peers make up must have a bound.
