"""Produce and InitProducerId, from request to response.

Batches come in from clients and go to the replicas' logs; an acks=all response leaves when the high watermark has
passed it. Source: kafka.server.KafkaApis.handleProduceRequest, DelayedProduce.
"""
