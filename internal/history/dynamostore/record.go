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
	solvePrefix  = "SOLVE#" // prefix of the partition key of a record, and of the sort key of the copy by site
	sitePrefix   = "SITE#"
	activePrefix = "ACTIVE#"
	statusPrefix = "STATUS#"
	meta         = "META"
	task         = "TASK"

	// The maximum length of keys in DynamoDB, in bytes.
	mostPartitionKey = 2048
	mostSortKey      = 1024
)

// prefixedKey returns prefix followed by a text. If the key would be longer than maximum bytes,
// prefixedKey replaces the text by its hash.
func prefixedKey(prefix, text string, maximum int) string {
	if len(prefix)+len(text) > maximum {
		hash := sha256.Sum256([]byte(text))
		text = hex.EncodeToString(hash[:])
	}
	return prefix + text
}

func siteKey(sitekey string) string { return prefixedKey(sitePrefix, sitekey, mostPartitionKey) }

// item is an item of the table, or the key of an item.
type item map[string]types.AttributeValue

// endAttributes lists the attributes of a record that an order in flight does not have.
var endAttributes = []string{"ended_at", "solved_at", "how", "code", "polls", "callback", "price", "choice"}

// activeItem returns the item of an order in flight, without its key.
func activeItem(r history.Record) item {
	i := item{}
	i.setColumns(r.Columns())
	for _, name := range endAttributes {
		delete(i, name)
	}
	return i
}

// solveItem returns the item of a record, which expires after the duration keep.
func solveItem(r history.Record, keep time.Duration) item {
	i := item{}
	i.setColumns(r.Columns())
	i.setKey(solvePrefix+r.ID, meta)
	i.setIndex(r.Status(), position(r.Ended, r.ID))
	i.setNumber("elapsed_ms", r.Elapsed().Milliseconds())
	i.setNumber("ttl", r.Ended.Add(keep).Unix())
	return i
}

// siteItem returns a copy of a record's item under the key of its site. It returns nil if the record
// has no sitekey.
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

// taskItem returns a copy of a record's item under the key of its task. It returns nil if the record
// has no task, or if the task id has the form of an order's ID.
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

// taskKey returns the partition key of a task. It replaces invalid UTF-8 in the same way as the SDK.
// Without this, two different keys of a batch could become equal in the SDK.
func taskKey(name string) string {
	return prefixedKey(solvePrefix, strings.ToValidUTF8(name, "\uFFFD"), mostPartitionKey)
}

// record reads a record from its item, or from the copy for its site or task. It returns false if the
// item has expired or was written by another program.
func (i item) record(now time.Time) (history.Record, bool) {
	r := history.Record{ID: i.id()}
	i.readColumns(r.Columns())
	_, identity, _ := strings.Cut(r.ID, ".")
	r.Identity = captcha.ID(identity)
	return r, i.number("ttl") > now.Unix() && r.ID != "" && r.How != "" && !r.Ended.IsZero()
}

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
