package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
)

const (
	// mostOfSite and mostOfStatus are how many records are listed, the newest.
	mostOfSite   = 50
	mostOfStatus = 1000
)

// Archive keeps records of orders that ended, for a while, all in one slot. It knows
// nothing of what stands in one.
type Archive struct{ *client }

// Archived is one record.
type Archived struct {
	ID     string // of the order, without a bar
	Alias  string // any text that FindAlias finds it by, until another record has it; "" = none
	Site   string // that it is listed by, any text
	Status string // the same, a word
	Ended  time.Time
	Text   string
	// Figures are added to those of the UTC day on which it ended.
	Figures map[string]int64
}

// Add keeps records for a while, each once: one that is there already changes nothing.
func (s *Archive) Add(ctx context.Context, records []Archived, keep time.Duration) error {
	if len(records) == 0 {
		return nil
	}
	k := s.archive()
	var keys []string
	args := []any{keep.Milliseconds(), mostOfSite, mostOfStatus}
	for _, r := range records {
		site, ended, alias := hashed(r.Site), strconv.FormatInt(r.Ended.UnixMilli(), 10), ""
		if r.Alias != "" {
			alias = r.ID
		}
		keys = append(keys, k.mark+r.ID, k.site+site, k.status+r.Status, k.day+dateOf(r.Ended), k.alias+hashed(r.Alias))
		args = append(args, ended, r.ID+"|"+r.Text, site+"|"+ended, alias, len(r.Figures))
		for name, n := range r.Figures {
			args = append(args, name, n)
		}
	}
	_, err := s.db.Eval(ctx, s.scripts.archive.add, keys, args...)
	return err
}

// OfSite are the newest records of a site that ended at from or later and before to;
// zero = no limit. The newest come first.
func (s *Archive) OfSite(ctx context.Context, site string, from, to time.Time) ([]Archived, error) {
	return s.listed(ctx, s.archive().site+hashed(site), from, to)
}

// OfStatus are those of a status.
func (s *Archive) OfStatus(ctx context.Context, status string, from, to time.Time) ([]Archived, error) {
	return s.listed(ctx, s.archive().status+status, from, to)
}

func (s *Archive) listed(ctx context.Context, key string, from, to time.Time) ([]Archived, error) {
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	first, last := scores(from, to)
	members, err := s.db.Slow.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: first, Max: last}).Result()
	if err != nil {
		return nil, redisdb.Down(err)
	}
	slices.Reverse(members)
	records := make([]Archived, len(members))
	for i, m := range members {
		text, _ := m.Member.(string)
		records[i].Ended = utc(int64(m.Score))
		records[i].ID, records[i].Text, _ = strings.Cut(text, "|")
	}
	return records, nil
}

// Day are the figures of the UTC day of a moment.
func (s *Archive) Day(ctx context.Context, day time.Time) (map[string]int64, error) {
	return s.figures(ctx, s.archive().day+dateOf(day))
}

func (s *Archive) figures(ctx context.Context, key string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	fields, err := s.db.Slow.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, redisdb.Down(err)
	}
	figures := make(map[string]int64, len(fields))
	for name, text := range fields {
		if figures[name], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("pool: the figure %q of a day: %w", name, err)
		}
	}
	return figures, nil
}

// Find is the record of one order; false where there is none, or it is listed no more.
func (s *Archive) Find(ctx context.Context, id string) (Archived, bool, error) {
	limited, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	mark, err := s.db.Slow.Get(limited, s.archive().mark+id).Result()
	if errors.Is(err, redis.Nil) {
		return Archived{}, false, nil
	}
	if err != nil {
		return Archived{}, false, redisdb.Down(err)
	}
	site, ended, _ := strings.Cut(mark, "|")
	at, err := strconv.ParseInt(ended, 10, 64)
	if err != nil {
		return Archived{}, false, errors.New("pool: the mark of a record is no moment")
	}
	records, err := s.listed(ctx, s.archive().site+site, utc(at), utc(at+1))
	for _, r := range records {
		if r.ID == id {
			return r, true, nil
		}
	}
	return Archived{}, false, err
}

// FindAlias returns the newest record of an alias, and false if there is none, or if it is no
// longer listed.
func (s *Archive) FindAlias(ctx context.Context, alias string) (Archived, bool, error) {
	limited, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	id, err := s.db.Slow.Get(limited, s.archive().alias+hashed(alias)).Result()
	if errors.Is(err, redis.Nil) {
		return Archived{}, false, nil
	}
	if err != nil {
		return Archived{}, false, redisdb.Down(err)
	}
	return s.Find(ctx, id)
}

// hashed stands for a text in the names of keys.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// dateOf is the UTC day of a moment.
func dateOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }
