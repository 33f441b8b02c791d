-- How many of the orders, and of the tokens bought for a key, have no known price. Their rows have the
-- price -1, and are not in spent.
alter table captcha_figures add column unpriced bigint not null default 0;
alter table captcha_audit_figures add column unpriced bigint not null default 0;
