package dynamostore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// keyPrefix begins the key of an entry, and the sort key of a key's figures.
const keyPrefix = "KEY#"

// entryShown are the attributes that make up an entry, with the keys that its time and ID
// are read from.
var entryShown = []string{"SK", "key", "action", "target", "token", "source", "image", "price", "ttl"}

// WriteEntries implements history.Audit.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	newcomers := make([]newcomer, len(batch))
	for n, e := range batch {
		// As the way to DynamoDB makes it: two keys that are one there must be one here.
		e.Key = strings.ToValidUTF8(e.Key, "\uFFFD")
		newcomers[n] = newcomer{entryItem(e, s.keepAudit), []addition{keyAddition(e, s.keepAudit)}}
	}
	_, err := s.enter(ctx, newcomers)
	return s.down(ctx, "writing the audit", err)
}

// entryItem is an entry.
func entryItem(e history.Entry, keep time.Duration) item {
	i := item{}
	i.setKey(entriesKey(e.Key), position(e.At, e.ID))
	i.setText("key", e.Key)
	i.setText("action", string(e.Action))
	i.setText("target", e.Target)
	i.setText("token", e.Token)
	i.setText("source", e.Source)
	i.setText("image", e.Image)
	i.setNumber("price", e.Price)
	i.setNumber("ttl", e.At.Add(keep).Unix())
	return i
}

// entriesKey is the key of a key's entries.
func entriesKey(key string) string { return keyed(keyPrefix, key, mostPartitionKey) }

// entry reads the item of an entry; false where it is past its ttl, or is no item of ours.
func (i item) entry(now time.Time) (history.Entry, bool) {
	at, id, _ := strings.Cut(i.text("SK"), "#")
	e := history.Entry{
		ID: id, Key: i.text("key"), Action: history.Action(i.text("action")), Target: i.text("target"), Token: i.text("token"),
		Source: i.text("source"), Image: i.text("image"), Price: i.number("price"),
	}
	var err error
	e.At, err = time.Parse(timestamp, at)
	return e, err == nil && i.number("ttl") > now.Unix() && e.ID != "" && e.Action != ""
}

// keyAddition is what an entry adds to the figures of its day. These end when the last
// entry of the day does.
func keyAddition(e history.Entry, keep time.Duration) addition {
	f := e.Figures()
	names := item{"key": &types.AttributeValueMemberS{Value: e.Key}}
	names.setNumber("ttl", e.At.UTC().Truncate(24*time.Hour).Add(24*time.Hour+keep).Unix())
	return addition{sum{date(e.At), keyed(keyPrefix, e.Key, mostSortKey)}, names, counts{
		"handed_out": f.HandedOut, "bought": f.Bought, "accepted": f.Accepted, "rejected": f.Rejected, "spent": f.Spent, "unpriced": f.Unpriced,
	}}
}

// Entries implements history.Audit.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (page history.Entries, _ error) {
	now := time.Now()
	err := s.walk(ctx, ofTable, entriesKey(strings.ToValidUTF8(key, "\uFFFD")), "", entryShown, q, func(i item) bool {
		e, ok := i.entry(now)
		if !ok || e.ID == q.Before.ID || q.Targets != nil && !slices.Contains(q.Targets, e.Target) {
			return true
		}
		if len(page.List) == q.Limit {
			page.More = true
			return false
		}
		page.List = append(page.List, e)
		return true
	})
	return page, s.down(ctx, "reading the audit", err)
}

// KeyDay implements history.Audit.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	keys, now := map[string]history.KeyFigures{}, time.Now()
	attributes := []string{"key", "handed_out", "bought", "accepted", "rejected", "spent", "unpriced", "ttl"}
	err := s.sums(ctx, day, keyPrefix, attributes, func(i item) {
		if i.number("ttl") > now.Unix() {
			keys[i.text("key")] = keys[i.text("key")].Plus(history.KeyFigures{
				HandedOut: i.number("handed_out"), Bought: i.number("bought"),
				Accepted: i.number("accepted"), Rejected: i.number("rejected"), Spent: i.number("spent"), Unpriced: i.number("unpriced"),
			})
		}
	})
	if err != nil {
		return nil, s.down(ctx, "reading the figures of keys", err)
	}
	return keys, nil
}
