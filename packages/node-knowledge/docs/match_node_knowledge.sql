CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE FUNCTION match_node_knowledge(
    query_text text, match_threshold float DEFAULT 0.3, match_count int DEFAULT 5, node_type_filter text DEFAULT NULL
) RETURNS TABLE (id uuid, node_type varchar, node_subtype varchar, title varchar, description text, content text,
                 similarity float, metadata jsonb)
LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        SELECT k.id, k.node_type, k.node_subtype, k.title, k.description, k.content,
               similarity(k.title, query_text)::float AS similarity, k.metadata
        FROM node_knowledge_vectors k
        WHERE node_type_filter IS NULL OR k.node_type = node_type_filter
    ) found
    WHERE found.similarity > match_threshold ORDER BY found.similarity DESC, found.title LIMIT match_count
$$;
