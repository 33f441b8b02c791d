// Package redisstore keeps the history in the daemon's own Redis, for some days: the newest 50 orders of each site key,
// the newest 1,000 of each status, the newest 10,000 hand-outs of each key, and the figures of each day. An order is
// found by its ID or task while it is among the newest 1,000 of its status. The size in Redis does not grow with the
// number of orders.
//
// A row is new if its list does not contain it. A row that is sent again after its list has dropped it counts twice;
// a Sender repeats only its last batch.
//
// # Keys
//
// All keys are in one slot, and each expires after the retention of its rows. A member of a list is the text of a row,
// which begins with its ID, so that rows of the same millisecond are in the order of their IDs. A field of a day is
// scope, name, owner and figure, joined by zero bytes. The prefix of these keys is "captcha":
//
//	captcha:orders:{history}:site:SITEKEY   zset  rows -> Unix ms
//	captcha:orders:{history}:STATUS         zset  rows -> Unix ms
//	captcha:handouts:{history}:KEY          zset  rows -> Unix ms
//	captcha:day:{history}:2006-01-02        hash  figures of types and targets
//	captcha:usage:{history}:2006-01-02      hash  figures of keys
package redisstore
