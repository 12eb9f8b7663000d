//! Reading a page of GDeflate.

use super::huffman::{Bits, Codes, END_OF_BLOCK, Table, corrupt, distance_of, length_of};
use super::lanes::{Page, Turn};
use super::{LANES, WORD};
use crate::failures::Outcome;

struct Reader<'a> {
    words: std::slice::ChunksExact<'a, u8>,
    bits: [u64; LANES],
    turn: Turn,
    /// The matches whose distance is still to be read: (length, destination).
    copies: [Option<(usize, usize)>; LANES],
    out: &'a mut [u8],
    at: usize,
}

impl Bits for Reader<'_> {
    fn peek(&self) -> u32 {
        self.bits[self.turn.lane] as u32
    }

    fn skip(&mut self, count: u32) -> Outcome {
        // A refilled lane has 32 bits, and no turn takes more.
        let Turn { lane, left } = &mut self.turn;
        self.bits[*lane] >>= count;
        left[*lane] = left[*lane].checked_sub(count).ok_or_else(|| corrupt("a lane runs dry"))?;
        Ok(())
    }
}

impl Reader<'_> {
    /// Makes the copy whose distance is next in this lane, if there is one.
    fn copy(&mut self, distances: &Table) -> Outcome<bool> {
        let Some((length, to)) = self.copies[self.turn.lane].take() else { return Ok(false) };
        let (base, extra) = distance_of(distances.read(self)?);
        let distance = (base + self.take(extra)?) as usize;
        let from = to.checked_sub(distance).ok_or_else(|| corrupt("a match begins before its page"))?;
        if distance >= length {
            self.out.copy_within(from..from + length, to);
        } else {
            for at in 0..length {
                self.out[to + at] = self.out[from + at];
            }
        }
        Ok(true)
    }
}

impl Page for Reader<'_> {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn next_word(&mut self) -> Outcome {
        let word = self.words.next().ok_or_else(|| corrupt("a page is cut short"))?;
        let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.bits[self.turn.lane] |= word << self.turn.left[self.turn.lane];
        Ok(())
    }

    fn block(&mut self, codes: &Codes) -> Outcome {
        loop {
            if !self.copy(&codes.1)? {
                let symbol = codes.0.read(self)?;
                if symbol < END_OF_BLOCK {
                    *self.out.get_mut(self.at).ok_or_else(|| corrupt("a page is too long"))? = symbol as u8;
                    self.at += 1;
                } else if symbol == END_OF_BLOCK {
                    break;
                } else {
                    let (base, extra) = length_of(symbol, (3, 16))?;
                    let length = (base + self.take(extra)?) as usize;
                    if length > self.out.len() - self.at {
                        return Err(corrupt("a page is too long"));
                    }
                    self.copies[self.turn.lane] = Some((length, self.at));
                    self.at += length;
                }
            }
            self.advance()?;
        }
        for _ in 0..LANES {
            self.copy(&codes.1)?;
            self.advance()?;
        }
        Ok(())
    }

    fn stored(&mut self) -> Outcome {
        for _ in 0..self.take(16)? {
            let byte = self.take(8)? as u8;
            *self.out.get_mut(self.at).ok_or_else(|| corrupt("a page is too long"))? = byte;
            self.at += 1;
            self.advance()?;
        }
        Ok(())
    }
}

pub fn decode_page(page: &[u8], out: &mut [u8]) -> Outcome {
    let words = page.chunks_exact(WORD as usize / 8);
    let mut reader = Reader { words, bits: [0; LANES], turn: Turn::default(), copies: [None; LANES], out, at: 0 };
    reader.blocks()?;
    if reader.at != reader.out.len() {
        return Err(corrupt("a page is too short"));
    }
    Ok(())
}
