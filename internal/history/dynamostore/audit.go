package dynamostore

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// keyPrefix is the prefix of the partition key of an entry, and of the sort key of an API key's
// figures.
const keyPrefix = "KEY#"

// entryAttributes lists the attributes that queries for entries read. The sort key SK contains the
// time and the ID of the entry.
var entryAttributes = attributes(new(history.Entry).Columns(), "SK", "ttl")

// WriteEntries implements history.Audit.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	newcomers := make([]newcomer, len(batch))
	for n, e := range batch {
		// The SDK also replaces invalid UTF-8 by U+FFFD. The keys get the same replacement here, because
		// putNew must know which keys are equal in the table.
		e.Key = strings.ToValidUTF8(e.Key, "\uFFFD")
		newcomers[n] = newcomer{entryItem(e, s.keepAudit), []addition{keyAddition(e, s.keepAudit)}}
	}
	_, err := s.putNew(ctx, newcomers)
	return s.downError(ctx, "writing the audit", err)
}

// entryItem returns the item of an entry, which expires after the duration keep.
func entryItem(e history.Entry, keep time.Duration) item {
	i := item{}
	i.setKey(entriesKey(e.Key), position(e.At, e.ID))
	i.setColumns(e.Columns())
	i.setNumber("ttl", e.At.Add(keep).Unix())
	return i
}

func entriesKey(key string) string { return prefixedKey(keyPrefix, key, mostPartitionKey) }

// entry reads the item of an entry. It returns false if the item has expired or was written by another program.
func (i item) entry(now time.Time) (e history.Entry, ok bool) {
	at, id, _ := strings.Cut(i.text("SK"), "#")
	i.readColumns(e.Columns())
	var err error
	e.ID = id
	e.At, err = time.Parse(timestamp, at)
	return e, err == nil && i.number("ttl") > now.Unix() && e.ID != "" && e.Action != ""
}

// keyAddition returns the amounts that an entry adds to the figures of its key and day. These figures
// expire when the last entry of the day expires.
func keyAddition(e history.Entry, keep time.Duration) addition {
	f := e.Figures()
	names := item{"key": &types.AttributeValueMemberS{Value: e.Key}}
	names.setNumber("ttl", e.At.UTC().Truncate(24*time.Hour).Add(24*time.Hour+keep).Unix())
	return addition{sum{date(e.At), prefixedKey(keyPrefix, e.Key, mostSortKey)}, names, increments(f.Counts())}
}

// Entries implements history.Audit.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	l := list{pk: "PK", sk: "SK", partition: entriesKey(strings.ToValidUTF8(key, "\uFFFD"))}
	entries, more, err := readPage(ctx, s, l, entryAttributes, q, item.entry, func(e history.Entry) (id, target string) { return e.ID, e.Target })
	return history.Entries{List: entries, More: more}, s.downError(ctx, "reading the audit", err)
}

// KeyDay implements history.Audit.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	keys, now := map[string]history.KeyFigures{}, time.Now()
	err := s.readSums(ctx, day, keyPrefix, []string{"key", "ttl"}, new(history.KeyFigures).Counts(), func(i item) {
		if i.number("ttl") > now.Unix() {
			var f history.KeyFigures
			i.readCounts(f.Counts())
			keys[i.text("key")] = keys[i.text("key")].Plus(f)
		}
	})
	if err != nil {
		return nil, s.downError(ctx, "reading the figures of keys", err)
	}
	return keys, nil
}
