//! The common parts of DEFLATE and GDeflate: bits, Huffman codes, lengths and distances.

use super::lanes::Page;
use crate::failures::{Code, Fault, Outcome};

const LONGEST: usize = 15; // bits of a code
const PRECODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
pub const END_OF_BLOCK: u32 = 256;
pub const LAST_LENGTH: u32 = 285;

#[cold]
pub fn corrupt(what: &str) -> Fault {
    Fault::new(Code::Decode, format!("gdeflate: {what}"))
}

/// Bits of a stream, the lowest first. Beyond its end `peek` returns zeros; `skip` refuses to pass it.
pub trait Bits {
    fn peek(&self) -> u32;
    fn skip(&mut self, count: u32) -> Outcome;

    fn take(&mut self, count: u32) -> Outcome<u32> {
        let bits = self.peek() & ((1 << count) - 1);
        self.skip(count)?;
        Ok(bits)
    }
}

/// A Huffman code: for all possible next bits, the symbol and the length of its code, 0 if there is none.
pub struct Table {
    bits: u32,
    entries: Vec<u16>,
}

impl Table {
    pub fn new(lengths: &[u8]) -> Outcome<Table> {
        let mut counts = [0u32; LONGEST + 1];
        for &length in lengths {
            counts[length as usize] += 1;
        }
        counts[0] = 0;
        let bits = (1..=LONGEST).rev().find(|&length| counts[length] > 0).unwrap_or(1);
        let (mut next, mut code) = ([0u32; LONGEST + 1], 0);
        for length in 1..=bits {
            code = (code + counts[length - 1]) << 1;
            next[length] = code;
            if code + counts[length] > 1 << length {
                return Err(corrupt("a Huffman code has too many symbols"));
            }
        }
        let mut entries = vec![0; 1 << bits];
        for (symbol, &length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let code = (next[length as usize] as u16).reverse_bits() >> (16 - length);
            next[length as usize] += 1;
            for at in (code as usize..1 << bits).step_by(1 << length) {
                entries[at] = (symbol as u16) << 4 | u16::from(length);
            }
        }
        Ok(Table { bits: bits as u32, entries })
    }

    pub fn read(&self, from: &mut impl Bits) -> Outcome<u32> {
        let entry = self.entries[(from.peek() & ((1 << self.bits) - 1)) as usize];
        if entry & 15 == 0 {
            return Err(corrupt("bits that no symbol has"));
        }
        from.skip(u32::from(entry & 15))?;
        Ok(u32::from(entry >> 4))
    }
}

/// The codes of a block: for literals and lengths, and for distances.
pub struct Codes(pub Table, pub Table);

impl Codes {
    pub fn fixed() -> Outcome<Codes> {
        let lengths: Vec<u8> = (0..288)
            .map(|symbol| {
                if !(144..280).contains(&symbol) {
                    8
                } else if symbol < 256 {
                    9
                } else {
                    7
                }
            })
            .collect();
        Ok(Codes(Table::new(&lengths)?, Table::new(&[5; 32])?))
    }

    /// The codes at the beginning of a block.
    pub fn read(page: &mut impl Page) -> Outcome<Codes> {
        let (literals, distances, count) = (page.take(5)? as usize + 257, page.take(5)? as usize + 1, page.take(4)? as usize + 4);
        page.refill()?;
        let mut precode = [0; 19];
        for &symbol in &PRECODE_ORDER[..count] {
            precode[symbol] = page.take(3)? as u8;
            page.advance()?;
        }
        let precode = Table::new(&precode)?;
        let mut lengths = Vec::with_capacity(literals + distances + 138);
        page.turn().lane = 0;
        while lengths.len() < literals + distances {
            match precode.read(page)? {
                symbol @ 0..16 => lengths.push(symbol as u8),
                16 => {
                    let last = *lengths.last().ok_or_else(|| corrupt("repeats no length"))?;
                    lengths.resize(lengths.len() + 3 + page.take(2)? as usize, last);
                }
                17 => lengths.resize(lengths.len() + 3 + page.take(3)? as usize, 0),
                _ => lengths.resize(lengths.len() + 11 + page.take(7)? as usize, 0),
            }
            page.advance()?;
        }
        Ok(Codes(Table::new(&lengths[..literals])?, Table::new(&lengths[literals..literals + distances])?))
    }
}

/// The first length of a length code, and how many bits are added. `last`: those of code 285.
pub fn length_of(symbol: u32, last: (u32, u32)) -> Outcome<(u32, u32)> {
    match symbol {
        257..=264 => Ok((symbol - 254, 0)),
        265..LAST_LENGTH => {
            let extra = (symbol - 261) / 4;
            Ok((((4 + (symbol - 261) % 4) << extra) + 3, extra))
        }
        LAST_LENGTH => Ok(last),
        _ => Err(corrupt("a length code that does not exist")),
    }
}

pub fn distance_of(symbol: u32) -> (u32, u32) {
    if symbol < 4 {
        return (symbol + 1, 0);
    }
    let extra = symbol / 2 - 1;
    (((2 + symbol % 2) << extra) + 1, extra)
}
