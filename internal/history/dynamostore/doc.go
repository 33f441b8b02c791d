// Package dynamostore keeps the history in one table of Amazon DynamoDB. Other programs may query this table. The keys
// of the table are PK and SK. The keys of its index GSI1, which projects all attributes, are GSI1PK and GSI1SK. The
// attribute ttl is the time when an item expires, in Unix seconds.
//
//	PK                          SK                          one item for each
//	SOLVE#{order}               META                        order that has ended
//	SOLVE#{task}                META                        provider's task: a copy of its newest order
//	SITE#{sitekey}              SOLVE#{timestamp}#{order}   order that has a site key: a copy
//	STATS#{date}                TYPE#{type}                 day and type: its figures
//	STATS#{date}                TARGET#{target}#{owner}     day, target and owner: its figures
//	ACTIVE#{order}              TASK                        order in flight, for ten minutes
//	KEY#{key}                   {timestamp}#{handout}       hand-out of a key
//	STATS#{date}                PROVIDER#{provider}         day and provider: its figures
//	STATS#{date}                KEY#{key}                   day and key: the key's figures
//
// A timestamp is the time at which an order ended, or the submit of an order in flight. A timestamp is in UTC with
// milliseconds, such as 2026-01-02T03:04:05.678Z, so that timestamps sort as times do. The index contains the orders,
// under STATUS#solved and STATUS#error, and those in flight, under STATUS#polling. Their sort key in the index is
// {timestamp}#{order}; the copies have this attribute, too, but are not in the index.
//
// The attributes of a row are the fields of its JSON (history.Order, history.Handout), without empty texts. Three
// fields of an order have other names: order is its id, captcha_type its type, and project its owner. An unknown price
// is NULL. The figures of each day, by type and by target, have these attributes:
//
//	total_solves                all orders: the sum of the next three figures
//	successful                  solved orders
//	refused                     refused orders: nothing was bought
//	failed                      all other orders; the figures discarded and lost count parts of them
//	total_elapsed               milliseconds from submission to end, over solved and discarded orders
//	spent                       sum of the known prices, in billionths of the currency; unpriced counts the others
//
// The figures of a key are the actions of its hand-outs, spent and unpriced. The figures of a key expire with the
// hand-outs; the figures by type and by target do not expire. The figures total_solves, successful, failed and
// total_elapsed always exist; others may be missing if they are 0. Find ignores items of other programs, which lack the
// attribute order or id.
//
// # Counting once
//
// One transaction puts rows, on condition that they are new, and adds them to the figures of their day. If DynamoDB
// cancels the transaction because some rows exist, the store repeats it without these. So each row counts exactly once,
// in spite of retries and crashes. After the transaction the store puts the copies by site and by task. It also puts
// the copies of rows that existed already, because the process that wrote these rows may have crashed before it put the
// copies.
//
// An order that ends removes its ACTIVE item. A replica that lost its lease while it was sending may put this item
// again afterwards; then the item expires.
//
// Each set of figures is one item without shards. One sender at a time adds to it, with up to a hundred rows in a
// transaction, so the item gets few writes.
//
// # Cost
//
// An order of up to 1 kB costs 5 write units: 2 for its item in the transaction, 1 in the index, 1 for the copy by site
// and 1 for the copy by task. A hand-out costs 2. A transaction also costs 2 units for each type, target with owner and
// key of its rows, so a single order costs 9 units and a single hand-out 4. In a batch of a hundred rows of few
// targets, an order costs little more than 5 units and a hand-out little more than 2. The item of an order in flight
// costs 2 units when it is put and 2 when it is removed; an order that ends in the batch of its purchase has none, and
// the removal costs 1.
//
// # Reading
//
// Reads are eventually consistent. They skip expired items, because DynamoDB deletes them hours or days late.
package dynamostore
