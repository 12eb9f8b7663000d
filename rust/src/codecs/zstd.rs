//! Zstandard (RFC 8878), through libzstd.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use zstd_sys::{self as sys, ZSTD_EndDirective, ZSTD_ErrorCode, ZSTD_ResetDirective, ZSTD_cParameter};

use super::{Ended, Refusal};
use crate::failures::{Code, Fault, Outcome};

/// Bytes that libzstd compresses as one block, and the step after which a long call checks whether it has ended.
const BLOCK: usize = 128 << 10;
/// Levels from here on take up to 100 milliseconds for a block: larger inputs are encoded in steps. At lower levels steps begin at this many bytes.
const SLOW_LEVEL: i32 = 13;
const LARGE: usize = 1 << 20;
/// Levels that search long and short matches in two large tables, which takes most of the time where there are none.
const TWO_TABLES: [i32; 3] = [0, 3, 4];
/// Bytes at the start of a large input for which the searches are compared.
const COMPARED: usize = 2 * BLOCK;
/// Stretches whose hashes are calculated together.
const STRETCHES: usize = 8;
/// Bytes of a sample, at least.
const SAMPLE: usize = 16 << 10;

pub fn bound(len: usize) -> Option<usize> {
    // Above this libzstd returns an error code.
    (len < usize::MAX / 256).then(|| zstd_safe::compress_bound(len))
}

/// A decompression context.
pub struct Decompressor(NonNull<sys::ZSTD_DCtx>);

// SAFETY: libzstd does not bind a context to a thread; the type is used only through `&mut`.
unsafe impl Send for Decompressor {}

impl Decompressor {
    pub fn new() -> Outcome<Decompressor> {
        // SAFETY: no arguments; null means out of memory.
        NonNull::new(unsafe { sys::ZSTD_createDCtx() }).map(Decompressor).ok_or_else(no_memory)
    }

    /// Decodes any number of frames, also skippable ones, with or without their content size in the header.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
        // SAFETY: the context is live; pointers and lengths are those of the slices.
        let made =
            unsafe { sys::ZSTD_decompressDCtx(self.0.as_ptr(), out.as_mut_ptr().cast(), out.len(), input.as_ptr().cast(), input.len()) };
        match failed(made) {
            false => Ok(made),
            true if made.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize => Err(Refusal::Full),
            true => {
                let checksum = made.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_checksum_wrong as usize;
                let code = if checksum { Code::Checksum } else { Code::Decode };
                Err(Refusal::bad(code, format!("zstd: {}", zstd_safe::get_error_name(made))))
            }
        }
    }

    /// Decodes blocks (of at most 128 KiB each) until the first `needed` bytes of `out` are decoded. False if the header does not state that the frame decodes
    /// to exactly `out`, if the frame has a checksum, which covers all bytes, or after an error: then the whole frame must be decoded, which reports the error.
    pub fn decode_start(&mut self, input: &[u8], out: &mut [u8], needed: usize) -> bool {
        let mut header = MaybeUninit::<sys::ZSTD_FrameHeader>::uninit();
        // SAFETY: pointer and length are those of the slice; the header is filled if the result is 0.
        let header = unsafe {
            if sys::ZSTD_getFrameHeader(header.as_mut_ptr(), input.as_ptr().cast(), input.len()) != 0 {
                return false;
            }
            header.assume_init()
        };
        let is_frame = header.frameType == sys::ZSTD_FrameType_e::ZSTD_frame;
        if !is_frame || header.frameContentSize != out.len() as u64 || header.checksumFlag != 0 || header.dictID != 0 {
            return false;
        }
        // SAFETY: the context is live.
        if failed(unsafe { sys::ZSTD_decompressBegin(self.0.as_ptr()) }) {
            return false;
        }
        let (mut at, mut made) = (0, 0);
        while made < needed {
            // SAFETY: the context is live and has begun.
            let next = unsafe { sys::ZSTD_nextSrcSizeToDecompress(self.0.as_ptr()) };
            let Some(part) = input.get(at..).and_then(|rest| rest.get(..next)).filter(|part| !part.is_empty()) else {
                return false;
            };
            let room = &mut out[made..];
            // SAFETY: pointers and lengths are those of the slices; the bytes decoded before are right before `room`, where blocks refer to them.
            let decoded = unsafe {
                sys::ZSTD_decompressContinue(self.0.as_ptr(), room.as_mut_ptr().cast(), room.len(), part.as_ptr().cast(), part.len())
            };
            if failed(decoded) || decoded > room.len() {
                return false;
            }
            (at, made) = (at + next, made + decoded);
        }
        true
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used elsewhere.
        unsafe { sys::ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

fn failed(answer: usize) -> bool {
    // SAFETY: takes a number.
    unsafe { sys::ZSTD_isError(answer) != 0 }
}

#[cold]
fn no_memory() -> Fault {
    Fault::new(Code::Io, "12 zstd: no memory for a context")
}

/// Where matches are searched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Search {
    /// Where the level searches.
    Level,
    /// In the last kilobytes, from 4 bytes on.
    Near,
    /// Nowhere.
    None,
}

impl Search {
    /// Beside the level. Parameter 5 is ZSTD_c_literalCompressionMode: literals are compressed, too.
    fn parameters(self) -> &'static [(ZSTD_cParameter, i32)] {
        use ZSTD_cParameter::{ZSTD_c_experimentalParam5, ZSTD_c_hashLog, ZSTD_c_minMatch, ZSTD_c_strategy, ZSTD_c_targetLength};
        match self {
            Search::Level => &[],
            Search::Near => &[(ZSTD_c_strategy, 1), (ZSTD_c_minMatch, 4), (ZSTD_c_hashLog, 12), (ZSTD_c_experimentalParam5, 1)],
            Search::None => &[(ZSTD_c_strategy, 1), (ZSTD_c_targetLength, BLOCK as i32), (ZSTD_c_experimentalParam5, 1)],
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Settings {
    level: i32,
    checksum: bool,
    search: Search,
}

/// A compression context and its settings.
pub struct Compressor {
    context: NonNull<sys::ZSTD_CCtx>,
    settings: Option<Settings>,
    /// For noise.
    fast: Option<Box<Compressor>>,
}

// SAFETY: as for Decompressor.
unsafe impl Send for Compressor {}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used elsewhere.
        unsafe { sys::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}

impl Compressor {
    pub fn new() -> Outcome<Compressor> {
        // SAFETY: no arguments; null means out of memory.
        let context = NonNull::new(unsafe { sys::ZSTD_createCCtx() }).ok_or_else(no_memory)?;
        Ok(Compressor { context, settings: None, fast: None })
    }

    fn set(&mut self, settings: Settings) -> Outcome {
        if self.settings == Some(settings) {
            return Ok(());
        }
        let context = self.context.as_ptr();
        self.settings = None;
        // Parameter 9 is ZSTD_c_stableInBuffer: the input is read in place, not copied first.
        let level = (ZSTD_cParameter::ZSTD_c_compressionLevel, settings.level);
        let checksum = (ZSTD_cParameter::ZSTD_c_checksumFlag, settings.checksum.into());
        let stable = (ZSTD_cParameter::ZSTD_c_experimentalParam9, 1);
        // SAFETY: the context is live; the others are numbers.
        unsafe {
            done(sys::ZSTD_CCtx_reset(context, ZSTD_ResetDirective::ZSTD_reset_session_and_parameters))?;
            for (name, value) in [level, checksum, stable].iter().chain(settings.search.parameters()) {
                done(sys::ZSTD_CCtx_setParameter(context, *name, *value))?;
            }
        }
        self.settings = Some(settings);
        Ok(())
    }

    /// One frame with its content size in the header.
    pub fn encode(&mut self, level: i32, checksum: bool, input: &[u8], out: &mut [u8], ended: Ended<'_>) -> Outcome<usize> {
        let mut settings = Settings { level, checksum, search: Search::Level };
        self.set(settings)?;
        if input.len() <= if level < SLOW_LEVEL { LARGE } else { BLOCK } {
            return self.encode_at_once(input, out);
        }
        if !TWO_TABLES.contains(&level) {
            return self.encode_in_steps(input, out, ended, |_, _, _| Ok(false));
        }
        let mut fast = self.fast.take().map_or_else(|| Compressor::new().map(Box::new), Ok)?;
        let compared = if fast.is_noise(settings, input, out)? { COMPARED } else { 0 };
        let made = self.encode_in_steps(input, out, ended, |read, made, room| {
            if read == compared {
                settings.search = fast.search(settings, input, made, room, ended)?;
            }
            Ok(settings.search != Search::Level)
        })?;
        let made = if settings.search == Search::Level {
            made
        } else {
            fast.set(settings)?;
            // noise makes blocks of one size: if one differs, the samples have missed other data
            let (mut before, mut block, mut uneven) = (0, 0, false);
            let made = fast.encode_in_steps(input, out, ended, |read, made, _| {
                uneven = read > COMPARED && (made - before).abs_diff(block) > block / 32;
                (before, block) = (made, made - before);
                Ok(uneven)
            })?;
            if uneven { self.encode_in_steps(input, out, ended, |_, _, _| Ok(false))? } else { made }
        };
        self.fast = Some(fast);
        Ok(made)
    }

    fn encode_at_once(&mut self, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
        let (to, from) = (out.as_mut_ptr().cast(), input.as_ptr().cast());
        // SAFETY: the context is live; pointers and lengths are those of the slices.
        done(unsafe { sys::ZSTD_compress2(self.context.as_ptr(), to, out.len(), from, input.len()) })
    }

    /// The same, block by block, until the call has ended, or until `stop` is true for the numbers of bytes read and written, and the free room.
    fn encode_in_steps(
        &mut self,
        input: &[u8],
        out: &mut [u8],
        ended: Ended<'_>,
        mut stop: impl FnMut(usize, usize, &mut [u8]) -> Outcome<bool>,
    ) -> Outcome<usize> {
        let context = self.context.as_ptr();
        // SAFETY: the context is live. A call that ended may have left it in the middle of a frame.
        unsafe {
            done(sys::ZSTD_CCtx_reset(context, ZSTD_ResetDirective::ZSTD_reset_session_only))?;
            done(sys::ZSTD_CCtx_setPledgedSrcSize(context, input.len() as u64))?;
        }
        let mut from = sys::ZSTD_inBuffer { src: input.as_ptr().cast(), size: 0, pos: 0 };
        let mut made = 0;
        loop {
            if ended() {
                return Err(Fault::new(Code::Encode, "zstd: interrupted"));
            }
            from.size = input.len().min(from.size + BLOCK);
            let last = from.size == input.len();
            let directive = if last { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
            let mut to = sys::ZSTD_outBuffer { dst: out.as_mut_ptr().cast(), size: out.len(), pos: made };
            // SAFETY: the context is live; the buffers are parts of the slices, and the input keeps its place and value between the calls.
            let left = done(unsafe { sys::ZSTD_compressStream2(context, &raw mut to, &raw mut from, directive) })?;
            made = to.pos;
            if last {
                return if left == 0 { Ok(made) } else { Err(Fault::new(Code::Decode, "zstd: the room is too small")) };
            }
            if stop(from.size, made, &mut out[made..])? {
                return Ok(made);
            }
        }
    }

    /// The size of a frame with another search; the largest number if there is no room.
    fn size(&mut self, settings: Settings, search: Search, input: &[u8], room: &mut [u8]) -> Outcome<usize> {
        self.set(Settings { search, ..settings })?;
        Ok(self.encode_at_once(input, room).unwrap_or(usize::MAX))
    }

    /// Whether literals take at most 3/4 of their bytes (above that the level is as fast), and near matches save at most 3 %, in each of four samples: so that a
    /// fast search may do as well as that of the level.
    fn is_noise(&mut self, settings: Settings, input: &[u8], room: &mut [u8]) -> Outcome<bool> {
        let size = (input.len() / 128).clamp(SAMPLE, COMPARED);
        for quarter in input.chunks_exact(input.len() / 4) {
            let sample = &quarter[(quarter.len() - size) / 2..][..size];
            let literals = self.size(settings, Search::None, sample, room)?;
            if literals > size / 4 * 3 || self.size(settings, Search::Near, sample, room)? < literals / 100 * 97 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The fastest search that encodes the start of the input in at most as many bytes as that of the level, which needs `made` bytes. As the level improves later
    /// on, by up to 2 %, more is not allowed at the start.
    fn search(&mut self, settings: Settings, input: &[u8], made: usize, room: &mut [u8], ended: Ended<'_>) -> Outcome<Search> {
        let start = &input[..COMPARED];
        let literals = self.size(settings, Search::None, start, room)?;
        let search = if literals <= made {
            Search::None
        } else if literals / 103 <= made / 100 && self.size(settings, Search::Near, start, room)? <= made {
            Search::Near
        } else {
            return Ok(Search::Level);
        };
        Ok(if repeats(input, ended) { Search::Level } else { search })
    }
}

/// Whether more than 1 % of the stretches of 16 bytes occur again, near or far: of those whose hash selects them as a sample.
fn repeats(input: &[u8], ended: Ended<'_>) -> bool {
    let mut known = vec![0; 1 << 14];
    let (mut sampled, mut again) = (0, 0);
    for run in input.chunks(LARGE).take_while(|_| !ended()).flat_map(|part| part.windows(STRETCHES + 15).step_by(STRETCHES)) {
        let Some(run) = run.first_chunk::<{ STRETCHES + 15 }>() else { continue }; // of known length: without checks
        let number = |at: usize| run[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let hashes: [u64; STRETCHES] = std::array::from_fn(|at| number(at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if hashes.iter().fold(false, |any, hash| any | (hash >> 56 == 0)) {
            for (at, hash) in hashes.into_iter().enumerate().filter(|(_, hash)| hash >> 56 == 0) {
                let hash = (hash.rotate_left(29) ^ number(at + 8)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
                let slot: &mut u64 = &mut known[(hash >> 50) as usize];
                again += usize::from(std::mem::replace(slot, hash) == hash);
                sampled += 1;
            }
        }
    }
    again * 100 > sampled
}

/// The result of a call, unless it is an error.
fn done(answer: usize) -> Outcome<usize> {
    if failed(answer) {
        return Err(Fault::new(Code::Decode, format!("zstd: {}", zstd_safe::get_error_name(answer))));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values below `most`, from a generator.
    fn random(len: usize, most: u64) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % most) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn noise_is_encoded_by_a_fast_search_and_other_data_by_that_of_the_level() {
        let lengths = random(36_000, 46);
        let words: Vec<u8> = random(36_000 * 51, 26).iter().map(|letter| letter + 97).collect();
        let words = words.chunks(51).zip(lengths).map(|(word, length)| &word[..5 + usize::from(length)]);
        let letters: Vec<u8> = words.flat_map(|word| [&[word.len() as u8, 0, 0, 0], word].concat()).collect();
        let half = &letters[..letters.len() / 2];
        let halves = [half, &half[100_000..], &half[..100_000]].concat(); // far matches, and few near ones
        // between the samples there is other data
        let times: Vec<u8> = (0..16_000u64).flat_map(|time| (time * 3600).to_le_bytes()).collect();
        let noise = random(2_000_000, 16);
        let planes = [&noise[..1_000_000], &times, &noise[1_000_000..]].concat();
        let words: Vec<u8> = random(180_000, 200).iter().flat_map(|&word| [word, 1, 2, 3, word ^ 7, 32]).collect();
        for (data, expected) in [
            (random(1_050_000, 4), Search::None),
            (letters, Search::Near),
            (halves, Search::Level),
            (planes, Search::Level),
            (words, Search::Level),
            (random(1_050_000, 256), Search::Level),
        ] {
            let (mut context, mut out) = (Compressor::new().unwrap(), vec![0; bound(data.len()).unwrap()]);
            let made = context.encode(3, true, &data, &mut out, &|| false).unwrap();
            let fast = context.fast.as_ref().and_then(|fast| fast.settings).unwrap().search;
            context.set(Settings { level: 3, checksum: true, search: Search::Level }).unwrap();
            let mut whole = vec![0; bound(data.len()).unwrap()];
            let size = context.encode_in_steps(&data, &mut whole, &|| false, |_, _, _| Ok(false)).unwrap();
            assert_eq!(
                whole[..size] == out[..made],
                expected == Search::Level,
                "{expected:?}, after {fast:?}: {made} bytes, the level {size}"
            );
            assert!(expected == Search::Level || fast == expected, "{expected:?}, not {fast:?}: {made} bytes, the level {size}");
            assert!(made <= size + size / 100, "{made} bytes instead of {size}");
            let mut decoded = vec![0; data.len()];
            assert!(Decompressor::new().unwrap().decode(&out[..made], &mut decoded).is_ok_and(|size| size == data.len()));
            assert!(decoded == data);
            let again = context.encode(3, true, &data, &mut whole, &|| false).unwrap();
            assert!(whole[..again] == out[..made]);
        }
    }

    fn encoded(data: &[u8], checksum: bool) -> Vec<u8> {
        let mut out = vec![0; bound(data.len()).unwrap()];
        let made = Compressor::new().unwrap().encode(3, checksum, data, &mut out, &|| false).unwrap();
        out.truncate(made);
        out
    }

    #[test]
    fn the_start_is_decoded_without_the_rest() {
        let data: Vec<u8> = (0..500_000u32).map(|i| (i.wrapping_mul(i) >> 9) as u8 ^ (i / 3000) as u8).collect();
        let (mut context, mut frame) = (Decompressor::new().unwrap(), encoded(&data, false));
        let last = frame.len() - 1;
        for needed in [0, 1, 1000, 131_072, 131_073, 400_000, 499_999] {
            let mut out = vec![0; data.len()];
            assert!(context.decode_start(&frame, &mut out, needed));
            assert_eq!(out[..needed], data[..needed]);
        }
        frame.truncate(last); // of the last block
        let mut out = vec![0; data.len()];
        assert!(context.decode_start(&frame, &mut out, 100_000));
        assert_eq!(out[..100_000], data[..100_000]);
        assert!(!context.decode_start(&frame, &mut out, 499_999));
        assert!(!context.decode_start(&frame[..4], &mut out, 1));
        assert!(!context.decode_start(&frame[..20], &mut out, 1));
    }

    #[test]
    fn a_large_chunk_is_one_frame_of_its_size_and_ends_early() {
        let data: Vec<u8> = (0..(3 << 20) + 12_345u32).map(|i| (i.wrapping_mul(i) >> 11) as u8 & 15).collect();
        for (level, checksum) in [(-3, true), (3, false), (9, true), (13, false), (19, true)] {
            let mut context = Compressor::new().unwrap();
            context.set(Settings { level, checksum, search: Search::Level }).unwrap();
            let (mut whole, mut out) = (vec![0; bound(data.len()).unwrap()], vec![0; bound(data.len()).unwrap()]);
            let size = context.encode_at_once(&data, &mut whole).unwrap();
            let steps = std::cell::Cell::new(0);
            let ended = || steps.replace(steps.get() + 1) == 3;
            assert!(context.encode(level, checksum, &data, &mut out, &ended).is_err());
            assert_eq!(steps.get(), 4);
            let made = context.encode(level, checksum, &data, &mut out, &|| false).unwrap();
            assert!(made <= size + size / 1000, "level {level}: {made} bytes instead of {size}");
            let (mut context, mut decoded) = (Decompressor::new().unwrap(), vec![0; data.len()]);
            assert!(context.decode(&out[..made], &mut decoded).is_ok_and(|size| size == data.len()));
            assert!(decoded == data);
            assert_eq!(context.decode_start(&out[..made], &mut decoded, 1), !checksum);
        }
    }

    #[test]
    fn frames_of_another_size_or_with_a_checksum_are_decoded_whole() {
        let (data, mut context) = (vec![7; 300_000], Decompressor::new().unwrap());
        assert!(!context.decode_start(&encoded(&data, true), &mut vec![0; 300_000], 10));
        assert!(!context.decode_start(&encoded(&data, false), &mut vec![0; 300_001], 10));
        assert!(!context.decode_start(&encoded(&data[1..], false), &mut vec![0; 300_000], 10));
        assert!(context.decode_start(&encoded(&data, false), &mut vec![0; 300_000], 10));
    }
}
