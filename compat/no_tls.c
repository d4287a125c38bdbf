/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the static build: the archive of libmicrohttpd refers to gnutls, whose own
 * archive needs libraries that exist as shared ones only. The server speaks plain
 * HTTP, so none of these is called but the first two; each says no.
 */
#include <stddef.h>

int gnutls_global_init(void);
int gnutls_global_init(void)
{
	return 0;
}

void gnutls_global_deinit(void);
void gnutls_global_deinit(void)
{
}

extern void *(*gnutls_malloc)(size_t);
void *(*gnutls_malloc)(size_t);

#define NO(name)           \
	int name(void);    \
	int name(void)     \
	{                  \
		return -1; \
	}

NO(gnutls_alpn_set_protocols)
NO(gnutls_bye)
NO(gnutls_certificate_allocate_credentials)
NO(gnutls_certificate_free_credentials)
NO(gnutls_certificate_server_set_request)
NO(gnutls_certificate_set_dh_params)
NO(gnutls_certificate_set_retrieve_function2)
NO(gnutls_certificate_set_retrieve_function3)
NO(gnutls_certificate_set_x509_key_mem)
NO(gnutls_certificate_set_x509_key_mem2)
NO(gnutls_certificate_set_x509_trust_mem)
NO(gnutls_cipher_get)
NO(gnutls_credentials_set)
NO(gnutls_deinit)
NO(gnutls_dh_params_deinit)
NO(gnutls_dh_params_import_pkcs3)
NO(gnutls_dh_params_init)
NO(gnutls_handshake)
NO(gnutls_init)
NO(gnutls_priority_deinit)
NO(gnutls_priority_init)
NO(gnutls_priority_set)
NO(gnutls_protocol_get_version)
NO(gnutls_psk_allocate_server_credentials)
NO(gnutls_psk_free_server_credentials)
NO(gnutls_psk_set_server_credentials_function)
NO(gnutls_record_check_pending)
NO(gnutls_record_get_direction)
NO(gnutls_record_recv)
NO(gnutls_record_send)
NO(gnutls_session_get_ptr)
NO(gnutls_session_set_ptr)
NO(gnutls_strerror)
NO(gnutls_transport_set_int2)
