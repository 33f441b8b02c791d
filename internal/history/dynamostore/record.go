package dynamostore

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
)

const (
	solvePrefix  = "SOLVE#" // of the key of a record, and of the sort key of a site's
	sitePrefix   = "SITE#"
	activePrefix = "ACTIVE#"
	statusPrefix = "STATUS#"
	meta         = "META"
	task         = "TASK"

	// DynamoDB's limits of a key, in bytes:
	mostPartitionKey = 2048
	mostSortKey      = 1024
)

// keyed returns a key that ends with a text, or with the hash of a text that is too long.
func keyed(prefix, text string, most int) string {
	if len(prefix)+len(text) > most {
		hash := sha256.Sum256([]byte(text))
		text = hex.EncodeToString(hash[:])
	}
	return prefix + text
}

// siteKey is the partition of a site's records.
func siteKey(sitekey string) string { return keyed(sitePrefix, sitekey, mostPartitionKey) }

// item is an item of the table, or a key.
type item map[string]types.AttributeValue

// endAttributes lists the attributes that an order under way lacks.
var endAttributes = []string{"ended_at", "solved_at", "how", "code", "polls", "callback", "price"}

// activeItem is the item of an order under way, without its key.
func activeItem(r history.Record) item {
	i := item{}
	i.write(r.Columns())
	for _, name := range endAttributes {
		delete(i, name)
	}
	return i
}

// solveItem is the item of a record.
func solveItem(r history.Record, keep time.Duration) item {
	i := item{}
	i.write(r.Columns())
	i.setKey(solvePrefix+r.ID, meta)
	i.setIndex(r.Status(), position(r.Ended, r.ID))
	i.setNumber("elapsed_ms", r.Elapsed().Milliseconds())
	i.setNumber("ttl", r.Ended.Add(keep).Unix())
	return i
}

// siteItem returns the copy of a solve's item for its site, or nil if it has none.
func siteItem(solve item) item {
	if solve.text("sitekey") == "" {
		return nil
	}
	i := maps.Clone(solve)
	delete(i, "GSI1PK")
	delete(i, "GSI1SK")
	i.setKey(siteKey(solve.text("sitekey")), solvePrefix+solve.text("GSI1SK"))
	return i
}

// taskItem returns the copy of a solve's item that is found by its task, or nil if it has none.
func taskItem(solve item) item {
	name := solve.text("task")
	if name == "" || history.IsOrder(name) {
		return nil
	}
	i := maps.Clone(solve)
	delete(i, "GSI1PK")
	delete(i, "GSI1SK")
	i.setText("order", solve.id())
	i.setKey(taskKey(name), meta)
	return i
}

// taskKey is the partition of a task. The text is normalised as by the SDK, so that no batch has one key twice.
func taskKey(name string) string {
	return keyed(solvePrefix, strings.ToValidUTF8(name, "\uFFFD"), mostPartitionKey)
}

// record reads the item of a solve, of a site or of a task. It returns false if the item is past its ttl, or is
// another program's.
func (i item) record(now time.Time) (history.Record, bool) {
	r := history.Record{ID: i.id()}
	i.read(r.Columns())
	_, identity, _ := strings.Cut(r.ID, ".")
	r.Identity = captcha.ID(identity)
	return r, i.number("ttl") > now.Unix() && r.ID != "" && r.How != "" && !r.Ended.IsZero()
}

// id returns the ID of an item's record.
func (i item) id() string {
	if order := i.text("order"); order != "" {
		return order
	}
	if id, solve := strings.CutPrefix(i.text("PK"), solvePrefix); solve {
		return id
	}
	_, id, _ := strings.Cut(strings.TrimPrefix(i.text("SK"), solvePrefix), "#")
	return id
}
