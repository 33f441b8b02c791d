package refill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"time"
)

// A saved Mind is
//
//	"pm"  savedVersion  body  CRC-32 of all that
//
// with the numbers of the body little-endian or as unsigned varints: scale,
// start, now, last, count, credit, share of failures, last horizon (float64);
// failures in a row; lead times, oldest first (how many, then float32); the
// cells of the table (how many, then each with the distance from the one
// before). A cell is three histograms, and one of these a mask of the bins that
// hold something and their weights. What waits for its horizon is not saved:
// that is the last two minutes.
const (
	savedMagic   = "pm"
	savedVersion = 1
	savedLeast   = len(savedMagic) + 1 + crc32.Size
	// savedMost is more than any Mind takes.
	savedMost = 128 << 10
	// latest is the greatest time that is believed, in unix seconds.
	latest = 1e11
	// mostCount is the greatest decayed count that is.
	mostCount = 1e9
)

var (
	// ErrSavedVersion says that a saved Mind was written by another version of
	// poold, so that what it had learned begins afresh.
	ErrSavedVersion = errors.New("what was learned was saved by another version of poold, it is learned afresh")
	// ErrSavedCorrupt says that a saved Mind is not what poold wrote.
	ErrSavedCorrupt = errors.New("what was learned cannot be read, it is learned afresh")
)

// MarshalBinary saves the Mind, without its Knobs, in at most 128 KiB and
// typically a tenth of that. It has no error.
func (m *Mind) MarshalBinary() ([]byte, error) {
	b := append([]byte(savedMagic), savedVersion)
	b = m.appendBody(b)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

// Restore makes a Mind from a saved one. On an error, ErrSavedVersion or
// ErrSavedCorrupt, the Mind is one that has seen nothing. Times that lie ahead of
// at are taken for at.
func Restore(k Knobs, data []byte, at time.Time) (*Mind, error) {
	if len(data) < savedLeast || len(data) > savedMost || string(data[:len(savedMagic)]) != savedMagic {
		return NewMind(k), fmt.Errorf("%w: %d bytes", ErrSavedCorrupt, len(data))
	}
	if version := data[len(savedMagic)]; version != savedVersion {
		return NewMind(k), fmt.Errorf("%w: version %d, known is %d", ErrSavedVersion, version, savedVersion)
	}
	body, sum := data[:len(data)-crc32.Size], data[len(data)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return NewMind(k), fmt.Errorf("%w: the checksum does not fit", ErrSavedCorrupt)
	}
	m, err := restoreBody(k, body[len(savedMagic)+1:], unixSeconds(at))
	if err != nil {
		return NewMind(k), err
	}
	return m, nil
}

func (m *Mind) appendBody(b []byte) []byte {
	for _, f := range [...]float64{m.scale, m.start, m.now, m.last, m.count, m.credit, m.solves.fails, m.ends()[horizons-1]} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	b = binary.AppendUvarint(b, uint64(m.solves.streak))
	b = binary.AppendUvarint(b, uint64(m.solves.n))
	for i := range m.solves.n {
		lead := m.solves.leads[(m.solves.next+leadsKept-m.solves.n+i)%leadsKept]
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(lead))
	}
	if m.table == nil {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(m.table.known)) //nolint:gosec // G115: never negative
	last := -1
	for i, c := range m.table.cells {
		if c == nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-last)) //nolint:gosec // G115: i is above last
		last = i
		for h := range c {
			b = c[h].append(b)
		}
	}
	return b
}

func (h *histogram) append(b []byte) []byte {
	mask := uint64(0)
	for i, units := range h.bins {
		if units > 0 {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, units := range h.bins {
		if units > 0 {
			b = binary.AppendUvarint(b, uint64(units))
		}
	}
	return b
}

// restoreBody reads what appendBody wrote, and nothing else.
func restoreBody(k Knobs, body []byte, at float64) (*Mind, error) {
	r := &savedReader{rest: body}
	m := NewMind(k)
	m.scale = r.float(leastScale, mostScale)
	m.start, m.now, m.last = r.float(0, latest), r.float(0, latest), r.float(0, latest)
	m.count, m.credit = r.float(0, mostCount), r.float(-mostCount, mostCount)
	m.solves.fails = r.float(0, 1)
	end := r.float(0, lifeMost+lifeBeyond)
	m.solves.streak = uint32(r.number(math.MaxUint32)) //nolint:gosec // G115: bounded
	m.solves.n = uint8(r.number(leadsKept))            //nolint:gosec // G115: bounded
	m.solves.next = m.solves.n % leadsKept
	for i := range m.solves.n {
		m.solves.leads[i] = r.lead()
	}
	learned := newTable()
	r.table(learned)
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: a value is out of its range, or missing", ErrSavedCorrupt)
	}
	at = max(at, 0)
	m.start, m.now, m.last = min(m.start, at), min(m.now, at), min(m.last, at)
	m.busy = bucket(busyEdges[:], m.count)
	m.sampled = at // nobody knows what happened meanwhile
	m.credit = min(max(m.credit, m.creditLowest()), m.creditMost())
	if m.table != nil {
		m.table = learned
		if m.ends()[horizons-1] != end {
			learned.forgetLast()
		}
	}
	m.learned()
	return m, nil
}

// savedReader reads numbers and remembers whether one was bad.
type savedReader struct {
	rest []byte
	bad  bool
}

// take returns the next n bytes, zeros where there are not so many.
func (r *savedReader) take(n int) []byte {
	if len(r.rest) < n {
		r.bad = true
		r.rest = nil
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// float reads one from lo to hi.
func (r *savedReader) float(lo, hi float64) float64 {
	f := math.Float64frombits(binary.LittleEndian.Uint64(r.take(8)))
	if !(f >= lo && f <= hi) { // false for NaN too
		r.bad = true
		return lo
	}
	return f
}

func (r *savedReader) lead() float32 {
	f := math.Float32frombits(binary.LittleEndian.Uint32(r.take(4)))
	if !(f >= 0 && f <= latest) {
		r.bad = true
		return 0
	}
	return f
}

// number reads a whole one up to most, in its shortest form.
func (r *savedReader) number(most uint64) uint64 {
	u, n := binary.Uvarint(r.rest)
	if n <= 0 || u > most || n > 1 && r.rest[n-1] == 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return u
}

func (r *savedReader) table(t *table) {
	t.known = int(r.number(mostCells)) //nolint:gosec // G115: bounded
	last := -1
	for range t.known {
		distance := int(r.number(situations)) //nolint:gosec // G115: bounded
		last += distance
		if r.bad || distance == 0 || last >= situations {
			r.bad = true
			return
		}
		c := new(cell)
		t.cells[last] = c
		for h := range c {
			r.histogram(&c[h])
		}
	}
}

func (r *savedReader) histogram(h *histogram) {
	mask := r.number(1<<bins - 1)
	for mask != 0 && !r.bad {
		i := bits.TrailingZeros64(mask)
		mask &= mask - 1
		units := r.number(halveAt)
		h.weight += uint32(units) //nolint:gosec // G115: bounded
		h.bins[i] = uint16(units) //nolint:gosec // G115: at most halveAt, which fits
		if units == 0 || h.weight > halveAt {
			r.bad = true
		}
	}
}
