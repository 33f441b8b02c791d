package pool

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
)

// mostLines is how many lines of the audit are kept of one name, the newest.
const mostLines = 10_000

// Line is one line of the audit.
type Line struct {
	ID   string // letters and digits
	Name string // whom it is about, any text
	At   time.Time
	Text string
	// Figures are added to those of the UTC day.
	Figures map[string]int64
}

// AddLines keeps lines for a while, each once: one that is there already, with its text,
// changes nothing, as does one that is older than that.
func (s *Archive) AddLines(ctx context.Context, lines []Line, keep time.Duration) error {
	if len(lines) == 0 {
		return nil
	}
	k := s.archive()
	var keys []string
	args := []any{keep.Milliseconds(), mostLines}
	for _, l := range lines {
		keys = append(keys, k.audit+hashed(l.Name), k.usage+dateOf(l.At))
		// A space sorts before all that an ID has, so that lines of one millisecond are
		// in the order of their IDs.
		args = append(args, l.At.UnixMilli(), l.ID+" "+l.Text, len(l.Figures))
		for name, n := range l.Figures {
			args = append(args, name, n)
		}
	}
	_, err := s.db.Eval(ctx, s.scripts.archive.lines, keys, args...)
	return err
}

// Lines are the newest lines about a name, of from or later and before to (zero = no
// limit), at most so many. The newest come first, those of one millisecond by their IDs.
func (s *Archive) Lines(ctx context.Context, name string, from, to time.Time, most int) ([]Line, error) {
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	first, last := scores(from, to)
	members, err := s.db.Slow.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: s.archive().audit + hashed(name), Start: last, Stop: first, ByScore: true, Rev: true, Count: int64(most),
	}).Result()
	if err != nil {
		return nil, redisdb.Down(err)
	}
	lines := make([]Line, len(members))
	for i, m := range members {
		text, _ := m.Member.(string)
		lines[i].Name, lines[i].At = name, utc(int64(m.Score))
		lines[i].ID, lines[i].Text, _ = strings.Cut(text, " ")
	}
	return lines, nil
}

// Usage are the figures of the lines of a moment's UTC day.
func (s *Archive) Usage(ctx context.Context, day time.Time) (map[string]int64, error) {
	return s.figures(ctx, s.archive().usage+dateOf(day))
}

// scores are the limits of a range of times, of which the first is in it; zero = none.
func scores(from, to time.Time) (first, last string) {
	first, last = "-inf", "+inf"
	if !from.IsZero() {
		first = strconv.FormatInt(ceilMilli(from), 10)
	}
	if !to.IsZero() {
		last = "(" + strconv.FormatInt(ceilMilli(to), 10)
	}
	return first, last
}

// ceilMilli is the first whole millisecond that is not before, in Unix ms.
func ceilMilli(at time.Time) int64 { return at.Add(time.Millisecond - time.Nanosecond).UnixMilli() }
