package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

const index = "GSI1"

// afterAll is a text that sorts after every timestamp.
const afterAll = ":"

// recordAttributes lists the attributes that queries for records read. It includes the keys, because
// they contain the ID of the record.
var recordAttributes = attributes(new(history.Record).Columns(), "PK", "SK", "order", "ttl")

// list is a partition of the table or of an index. Each sort key consists of a prefix and a position.
type list struct {
	index     *string // nil = the table
	pk, sk    string  // names of the attributes that are the keys
	partition string
	prefix    string
}

// Site implements history.Store.
func (s *Store) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	page, err := s.records(ctx, list{pk: "PK", sk: "SK", partition: siteKey(sitekey), prefix: solvePrefix}, q)
	return page, s.downError(ctx, "reading the records of a site", err)
}

// Tasks implements history.Store.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("reading the records of a status: no record has the status %q", status)
	}
	page, err := s.records(ctx, list{aws.String(index), "GSI1PK", "GSI1SK", statusPrefix + string(status), ""}, q)
	return page, s.downError(ctx, "reading the records of a status", err)
}

func (s *Store) records(ctx context.Context, l list, q history.Query) (history.Page, error) {
	records, more, err := readPage(ctx, s, l, recordAttributes, q, item.record, func(r history.Record) (id, target string) { return r.ID, r.Target })
	return history.Page{Records: records, More: more}, err
}

// readPage reads a page of a list. The function decode returns false for an item that does not belong
// on the page. The function `of` returns the ID and the target of a decoded item.
func readPage[T any](
	ctx context.Context, s *Store, l list, attributes []string, q history.Query,
	decode func(item, time.Time) (T, bool), of func(T) (id, target string),
) (found []T, more bool, err error) {
	now := time.Now()
	err = s.walk(ctx, l, attributes, q, func(i item) bool {
		one, ok := decode(i, now)
		if id, target := of(one); !ok || id == q.Before.ID || q.Targets != nil && !slices.Contains(q.Targets, target) {
			return true
		}
		if more = len(found) == q.Limit; !more {
			found = append(found, one)
		}
		return !more
	})
	return found, more, err
}

// walk calls the function see for the items that a query selects from a list, newest first. It stops
// when see returns false. It also calls see for the item at the position q.Before.
func (s *Store) walk(ctx context.Context, l list, attributes []string, q history.Query, see func(item) bool) error {
	low, high := l.prefix+stamp(ceil(q.From)), l.prefix+afterAll
	if !q.To.IsZero() {
		high = l.prefix + stamp(ceil(q.To)) // positions with the time q.To sort after this text
	}
	if q.Before != (history.Position{}) {
		high = min(high, l.prefix+position(q.Before.Ended, q.Before.ID))
	}
	if low > high { // DynamoDB refuses such a query
		return nil
	}
	expression, names := projection(attributes...)
	names["#pk"], names["#sk"] = l.pk, l.sk
	pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
		TableName: aws.String(s.table), IndexName: l.index, ScanIndexForward: aws.Bool(false),
		KeyConditionExpression: aws.String("#pk = :pk AND #sk BETWEEN :low AND :high"),
		ProjectionExpression:   aws.String(expression), ExpressionAttributeNames: names,
		ExpressionAttributeValues: item{
			":pk": &types.AttributeValueMemberS{Value: l.partition}, ":low": &types.AttributeValueMemberS{Value: low},
			":high": &types.AttributeValueMemberS{Value: high},
		},
		Limit: aws.Int32(pageSize(q)),
	})
	for pages.HasMorePages() {
		found, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, i := range found.Items {
			if !see(i) {
				return nil
			}
		}
	}
	return nil
}

// pageSize returns the number of items that one call to DynamoDB reads: the page and two more items.
// If the query selects only some targets, pageSize returns the largest page size, because the caller
// may skip many items.
func pageSize(q history.Query) int32 {
	if q.Targets != nil {
		return history.MostLimit
	}
	return int32(min(q.Limit, history.MostLimit) + 2) //nolint:gosec // G115: at most MostLimit and 2
}

// ceil rounds a time up to whole milliseconds.
func ceil(at time.Time) time.Time {
	return at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// projection returns the projection expression for attributes, and the map from aliases to names.
// Each name has an alias, because many words are reserved in DynamoDB.
func projection(attributes ...string) (expression string, names map[string]string) {
	names = map[string]string{}
	for _, name := range attributes {
		names["#"+name] = name
	}
	return "#" + strings.Join(attributes, ", #"), names
}

// Solve implements history.Store.
func (s *Store) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	if !history.IsOrder(id) { // such an id could be the key of a task's copy
		return history.Record{}, false, nil
	}
	return s.onlyRecord(ctx, solvePrefix+id)
}

// Task implements history.Store.
func (s *Store) Task(ctx context.Context, task string) (history.Record, bool, error) {
	if history.IsOrder(task) {
		return history.Record{}, false, nil
	}
	return s.onlyRecord(ctx, taskKey(task))
}

// onlyRecord reads the record in a partition that has a single item.
func (s *Store) onlyRecord(ctx context.Context, partition string) (history.Record, bool, error) {
	key := item{}
	key.setKey(partition, meta)
	expression, names := projection(recordAttributes...)
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(s.table), Key: key,
		ProjectionExpression: aws.String(expression), ExpressionAttributeNames: names,
	})
	if err != nil {
		return history.Record{}, false, s.downError(ctx, "reading a solve", err)
	}
	if r, ok := item(out.Item).record(time.Now()); ok {
		return r, true, nil
	}
	return history.Record{}, false, nil
}
