-- How much of a lease is known to be spent: a lease that ends by itself leaves the rest of what was handed out unsettled.

ALTER TABLE stepfall.holds ADD COLUMN settled bigint NOT NULL DEFAULT 0;

-- Says how much of each lease is handed out, and how much of that is settled, and returns those that have ended.
CREATE FUNCTION stepfall.extend(p_ids bigint[], p_handed_out bigint[], p_settled bigint[], p_ttl bigint) RETURNS SETOF bigint LANGUAGE sql AS $$
	WITH alive AS (
		UPDATE stepfall.holds h SET until_ns = stepfall.now_ns() + p_ttl, returns = h.amount - g.handed_out, settled = g.settled
			FROM unnest(p_ids, p_handed_out, p_settled) AS g (id, handed_out, settled) WHERE h.id = g.id AND NOT h.expired AND h.until_ns >= stepfall.now_ns() RETURNING h.id
	)
	SELECT g.id FROM unnest(p_ids) AS g (id) WHERE g.id NOT IN (SELECT id FROM alive)
$$;
