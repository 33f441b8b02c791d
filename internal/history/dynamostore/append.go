package dynamostore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"poold/internal/history"
)

// mostItems is the number of items that DynamoDB allows in a transaction. mostConcurrent limits the calls that one
// Append makes at the same time.
const mostItems, mostConcurrent = 100, 10

// entry is a row and its item.
type entry struct {
	history.Row
	item item
}

// Append implements history.Sink.
func (s *Table) Append(ctx context.Context, rows []history.Row) error {
	entries, active := map[key]entry{}, map[string]item{}
	for _, r := range rows {
		keep := s.keep[r.Kind]
		if time.Since(r.At) >= keep {
			continue
		}
		i := itemOf(r, keep)
		if r.Kind == history.KindActive {
			active[r.ID] = i
		} else {
			entries[i.key()] = entry{r, i}
		}
	}
	// The rows are sorted by key and target, so that a transaction changes few figures.
	list := slices.SortedFunc(maps.Values(entries),
		func(a, b entry) int { return cmp.Compare(a.Key+a.Target, b.Key+b.Target) })
	err := s.putNew(ctx, slices.Clone(list))
	if err == nil {
		err = s.putCopies(ctx, list, active)
	}
	return s.downError(ctx, "writing the history", err)
}

// putNew puts the items that the table lacks, and adds only these to the figures.
func (s *Table) putNew(ctx context.Context, list []entry) error {
	for len(list) > 0 {
		in, n := s.transaction(list)
		_, err := s.client.TransactWriteItems(ctx, in)
		reasons, i := reasonsOf(err), -1
		if err != nil && !slices.ContainsFunc(reasons, exists) {
			return err
		}
		list = slices.DeleteFunc(list, func(entry) bool { i++; return i < n && (err == nil || exists(reasons[i])) })
	}
	return nil
}

// transaction returns a transaction of the first n entries: as many as fit. It puts their items if they are new, and
// adds the entries to the figures.
func (s *Table) transaction(list []entry) (in *dynamodb.TransactWriteItemsInput, n int) {
	in, totals := &dynamodb.TransactWriteItemsInput{}, map[key]*history.Sum{}
	for ; n < len(list) && n+len(totals)+1+len(list[n].Sums) <= mostItems; n++ {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: &s.table, Item: marshal(list[n].item), ConditionExpression: aws.String("attribute_not_exists(PK)"),
		}})
		for _, sum := range list[n].Sums {
			k, more := sumKey(&sum), sum.Figures
			if totals[k] == nil {
				sum.Figures = history.Figures{}
				totals[k] = &sum
			}
			totals[k].Add(more)
		}
	}
	for k, sum := range totals {
		var change expression.UpdateBuilder
		for name, value := range s.sumNames(sum) {
			change = change.Set(expression.Name(name), expression.Value(value))
		}
		for name, figure := range amounts(sum) {
			change = change.Add(expression.Name(name), expression.Value(figure))
		}
		add := must(expression.NewBuilder().WithUpdate(change).Build())
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table, Key: marshal(k), UpdateExpression: add.Update(),
			ExpressionAttributeNames: add.Names(), ExpressionAttributeValues: add.Values(),
		}})
	}
	return in, n
}

// putCopies puts the copies of ended orders by site and by task. It also puts the items of orders in flight, and
// removes these items when the orders have ended. BatchWriteItem would cost the same units, but has no conditions, and
// its caller must repeat the writes that it left out.
func (s *Table) putCopies(ctx context.Context, list []entry, active map[string]item) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(mostConcurrent)
	put := func(in *dynamodb.PutItemInput, i item) {
		all.Go(func() error {
			in.TableName, in.Item = &s.table, marshal(i)
			_, err := s.client.PutItem(ctx, in)
			if newer := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &newer) {
				return nil
			}
			return err
		})
	}
	for _, e := range list {
		if e.Sitekey != "" {
			put(&dynamodb.PutItemInput{}, e.item.copyTo(key{"SITE#" + e.Sitekey, "SOLVE#" + e.item.text("GSI1SK")}))
		}
		// Two services may use the same id for a task; then the copy is of the newest order. An id in the form of an order's
		// ID has no copy, because it would replace the order.
		if e.Task != "" && !history.IsOrder(e.Task) {
			put(&dynamodb.PutItemInput{
				ConditionExpression:       aws.String("attribute_not_exists(GSI1SK) OR GSI1SK <= :at"),
				ExpressionAttributeValues: marshal(item{":at": e.item["GSI1SK"]}),
			}, e.item.copyTo(key{"SOLVE#" + e.Task, "META"}))
		}
		if delete(active, e.ID); e.Kind == history.KindOrder && s.keep[history.KindActive] > 0 {
			all.Go(func() error {
				k := marshal(key{"ACTIVE#" + e.ID, "TASK"})
				_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: k})
				return err
			})
		}
	}
	for _, i := range active {
		put(&dynamodb.PutItemInput{}, i)
	}
	return all.Wait()
}

// key is the PK and SK of an item.
type key struct{ PK, SK string }

// item is an item of the table: the values of its attributes by name, including PK and SK.
type item map[string]any

func (i item) key() key { return key{i.text("PK"), i.text("SK")} }

// text returns a string attribute, or "" if it is missing or of another type.
func (i item) text(name string) string { value, _ := i[name].(string); return value }

// copyTo returns a copy under another key. The copy is not in the index, because it lacks one of the index's two keys.
func (i item) copyTo(k key) item {
	i = maps.Clone(i)
	delete(i, "GSI1PK")
	i["PK"], i["SK"] = k.PK, k.SK
	return i
}

// marshal converts an item or a key to the SDK's form. This cannot fail, because DynamoDB can represent every JSON
// value.
func marshal(of any) map[string]types.AttributeValue { return must(attributevalue.MarshalMap(of)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// renamed lists the fields of an order's JSON whose attributes have another name.
var renamed = [][2]string{{"id", "order"}, {"type", "captcha_type"}, {"owner", "project"}}

// rename renames the fields in the list renamed: rename(0, 1) gives the names of attributes, and rename(1, 0) gives the
// names in JSON.
func (i item) rename(from, to int) {
	for _, names := range renamed {
		i[names[to]] = i[names[from]]
		delete(i, names[from])
	}
}

// itemOf returns the item of a row: the fields of its JSON without empty texts, the keys and the ttl.
func itemOf(r history.Row, keep time.Duration) (i item) {
	must(0, json.Unmarshal(r.Text, &i)) // history.Order.Row or history.Handout.Row has made it
	if r.Kind != history.KindHandout {
		i.rename(0, 1)
	}
	maps.DeleteFunc(i, func(_ string, value any) bool { return value == "" })
	i["ttl"] = r.At.Add(keep).Unix()
	switch at := position(r.At, r.ID); r.Kind {
	case history.KindHandout:
		i["PK"], i["SK"] = "KEY#"+r.Key, at
	case history.KindActive:
		i["PK"], i["SK"], i["GSI1PK"], i["GSI1SK"] = "ACTIVE#"+r.ID, "TASK", "STATUS#"+string(r.Status), at
	case history.KindOrder:
		i["PK"], i["SK"], i["GSI1PK"], i["GSI1SK"] = "SOLVE#"+r.ID, "META", "STATUS#"+string(r.Status), at
	}
	return i
}

// position returns the sort key of a row. Sort keys have the same order as the rows that Find returns.
func position(at time.Time, id string) string { return stamp(at) + "#" + id }

// stamp formats a time like history.Time. But the text of the zero time is not empty, because no key of DynamoDB may be
// empty.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// sumKey returns the key of the item for a sum. The sort key begins with the scope in capital letters.
func sumKey(s *history.Sum) key {
	sk := strings.ToUpper(string(s.Scope)) + "#" + s.Name
	if s.Scope == history.ScopeTarget {
		sk += "#" + s.Owner
	}
	return key{"STATS#" + s.Day, sk}
}

// sumNames returns the attributes of a sum except its figures. The figures of a caller's key expire together with the
// last hand-out of the day.
func (s *Table) sumNames(sum *history.Sum) item {
	switch sum.Scope {
	case history.ScopeType:
		return item{"captcha_type": sum.Name}
	case history.ScopeTarget:
		return item{"target": sum.Name, "project": sum.Owner}
	case history.ScopeProvider:
		return item{"provider": sum.Name}
	}
	day, _ := time.Parse(time.DateOnly, sum.Day)
	return item{"key": sum.Name, "ttl": day.AddDate(0, 0, 1).Add(s.keep[history.KindHandout]).Unix()}
}

// amounts returns the figures of a sum by the names of their attributes.
func amounts(s *history.Sum) history.Figures {
	f := maps.Clone(s.Figures)
	if s.Scope != history.ScopeKey {
		f["total_solves"], f["successful"], f["total_elapsed"] = f.Orders(), f["solved"], f["elapsed_ms"]
		f["failed"] += f["discarded"] + f["lost"]
		delete(f, "solved")
		delete(f, "elapsed_ms")
	}
	return f
}
